// The first view: the user's source, the forward part and the backward part, side by side.

class Columns {
  constructor(selection) {
    this.selection = selection;
    this.program = selection.program;
    this.source = 0;
    this.hover = null;
    this.lists = {
      source: this.rows("Source", (item) => this.drawSource(item), (row) => this.choseLine(row)),
      forward: this.rows("Forward program", drawRow, (row) => this.choseRow(row)),
      backward: this.rows("Backward program", drawRow, (row) => this.choseRow(row + this.listing.split)),
    };
    this.lists.source.hovered = (row) => this.hovering(row < 0 ? null : { line: `${this.source}:${row + 1}` });
    this.lists.forward.hovered = (row) => this.hovering(row < 0 ? null : { row });
    this.lists.backward.hovered = (row) => this.hovering(row < 0 ? null : { row: row + this.listing.split });
    this.tools = h("div", { class: "tools" });
    this.heads = { source: h("h2"), forward: h("h2"), backward: h("h2") };
    const column = (name) =>
      h("section", { class: `column ${name}` }, h("header", {}, this.heads[name]), this.lists[name].element);
    this.inspector = new Inspector(selection);
    this.columns = h("div", { class: "columns" }, column("source"), column("forward"), column("backward"));
    this.element = h("div", { class: "view program" }, this.tools, this.columns, this.inspector.element);
    this.element.addEventListener("keydown", (event) => this.aside(event));
  }

  rows(label, draw, chosen) {
    return new Rows({ label, draw, chosen });
  }

  get listing() {
    return this.selection.listing;
  }

  update() {
    const { program, selection, listing } = this;
    const { state } = selection;
    this.showTools(state);
    const place = this.placeOfSelection();
    if (place !== null) this.source = place.source;
    if (this.shown !== listing || this.shownSource !== this.source) {
      const source = program.data.sources[this.source];
      this.lists.source.show((source?.lines ?? []).map((text, at) => ({ text, line: at + 1 })));
      this.lists.forward.show(listing.lines.slice(0, listing.split).map((line, at) => [line, at + 1]));
      this.lists.backward.show(listing.lines.slice(listing.split).map((line, at) => [line, listing.split + at + 1]));
      this.shown = listing;
      this.shownSource = this.source;
      fill(this.heads.source, "Source ", h("span", { class: "fact" }, source ? source.name : "none"));
      const [forward, backward] = [listing.lines.slice(0, listing.split), listing.lines.slice(listing.split)];
      fill(this.heads.forward, "Forward ", h("span", { class: "fact" }, this.summary(forward)));
      fill(this.heads.backward, "Backward ", h("span", { class: "fact" }, this.summary(backward)));
      this.columns.classList.toggle("sourceless", !program.data.sources.length);
      this.columns.classList.toggle("forwardonly", !backward.length);
    }
    this.light(true);
  }

  summary(lines) {
    const bindings = lines.filter((line) => line.name !== null);
    const flops = bindings.reduce((sum, line) => sum + (line.flops ?? 0), 0);
    return `${counted(bindings.length, "binding")}, ${inFlops(flops)}`;
  }

  showTools(state) {
    const { data } = this.program;
    const stages = data.stages.map((stage, at) => [at, `${at}. ${stage.name}`]);
    const names = this.program.functions(state.stage).map((name) => [name, name]);
    const sources = data.sources.map((source, at) => [at, source.name]);
    fill(
      this.tools,
      picker("Program after", stages, state.stage, (stage) => this.goTo(Number(stage))),
      picker("Function", names, state.function, (name) => this.selection.change({ function: name, row: null })),
      sources.length > 1 ? picker("File", sources, this.source, (at) => this.open(Number(at))) : null,
    );
  }

  goTo(stage) {
    const names = this.program.functions(stage);
    const { state } = this.selection;
    this.selection.change({ stage, function: names.includes(state.function) ? state.function : names[0] });
  }

  open(source) {
    this.source = source;
    this.selection.change({ row: null, line: null });
  }

  placeOfSelection() {
    const { row, state } = this.selection;
    if (row >= 0) return this.program.place(this.listing.lines[row].place);
    if (state.line) return { source: Number(state.line.split(":")[0]) };
    return null;
  }

  drawSource({ text, line }) {
    const isKnown = this.listing.byPlace.has(`${this.source}:${line}`);
    return {
      className: isKnown ? "" : "still",
      children: [
        h("span", { class: "number" }, String(line)),
        h("span", { class: "code" }, cut(text)),
      ],
    };
  }

  choseLine(row) {
    this.selection.change({ line: `${this.source}:${row + 1}`, row: null });
  }

  choseRow(row) {
    const { name } = this.listing.lines[row];
    if (name !== null) this.selection.change({ row: name, line: null });
  }

  hovering(what) {
    this.hover = what;
    this.light(false);
  }

  /** Light up what belongs to the thing under the pointer, else to the selected one. */
  light(reveal) {
    const { selection, listing } = this;
    const [row, line] = this.hover
      ? [this.hover.row ?? -1, this.hover.line]
      : [selection.row, selection.state.line];
    const { rows, lines } = selection.lit(row, line);
    const isOwn = row >= 0 && !this.hover;
    const active = isOwn ? row : -1;
    const { split } = listing;
    const inSource = lines.filter((key) => key.startsWith(`${this.source}:`)).map((key) => Number(key.split(":")[1]) - 1);
    const own = !this.hover && line ? Number(line.split(":")[1]) - 1 : -1;
    this.lists.source.light(inSource, own, reveal);
    this.lists.forward.light(rows.filter((one) => one < split), active < split ? active : -1, reveal);
    this.lists.backward.light(
      rows.filter((one) => one >= split).map((one) => one - split),
      active >= split ? active - split : -1,
      reveal,
    );
  }

  /** Left and right lead from column to column. */
  aside(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const lists = Object.values(this.lists).filter((list) => list.element.offsetParent !== null);
    const at = lists.findIndex((list) => list.element === document.activeElement);
    if (step === undefined || at < 0) return;
    event.preventDefault();
    lists[Math.min(lists.length - 1, Math.max(0, at + step))].element.focus();
  }
}

function drawRow([line, number]) {
  return { children: drawLine(line, number), className: line.of === null ? "" : "derived" };
}
