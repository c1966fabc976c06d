// The graph: the program as two lanes, forward down and backward up, and the neighbours of a value.

const LONGEST_PERIOD = 48; // groups that a repeated layer may have

/** Consecutive bindings of one line of the source (or of one operator), as one box. */
function grouped(program, listing) {
  const groups = [];
  listing.lines.slice(0, listing.split).forEach((line, row) => {
    if (line.name === null) return;
    const key = program.lineKey(line.place) ?? line.operator;
    const last = groups[groups.length - 1];
    if (last && last.key === key) last.rows.push(row);
    else groups.push({ key, rows: [row] });
  });
  for (const group of groups) {
    const names = new Set(group.rows.map((row) => listing.lines[row].name));
    group.backward = [...names].flatMap((name) => listing.backward.get(name) ?? []);
  }
  return groups;
}

/** Groups that repeat one after the other, folded: each fold has a period and how often it runs. */
function folded(groups) {
  const folds = new Map(); // by the place where each begins
  const taken = new Uint8Array(groups.length);
  for (let period = 1; period <= LONGEST_PERIOD; period++) {
    let run = 0; // how many groups up to here are those of a period before
    for (let at = period; at <= groups.length; at++) {
      const isSame = at < groups.length && groups[at].key === groups[at - period].key && !taken[at] && !taken[at - period];
      if (isSame) {
        run++;
        continue;
      }
      const times = Math.floor(run / period) + 1;
      const start = at - run - period;
      if (times > 1) {
        folds.set(start, { period, times });
        taken.fill(1, start, start + period * times);
      }
      run = 0;
    }
  }
  const found = [];
  for (let at = 0; at < groups.length; ) {
    const { period, times } = folds.get(at) ?? { period: 1, times: 1 };
    found.push({ groups: groups.slice(at, at + period * times), period, times });
    at += period * times;
  }
  return found;
}

class GraphView {
  constructor(selection) {
    this.selection = selection;
    this.program = selection.program;
    this.open = new Set();
    this.lanes = new Rows({
      label: "Forward and backward lanes",
      className: "lanes",
      draw: (item) => this.drawItem(item),
      chosen: (row) => this.chose(this.lanes.items[row]),
    });
    this.around = h("div", { class: "around", "aria-label": "The neighbours of what is selected", role: "region" });
    this.head = h("header");
    this.element = h(
      "div",
      { class: "view graph" },
      h(
        "div",
        { class: "columns two wide" },
        h("section", { class: "column" }, this.head, this.lanes.element),
        h("section", { class: "column" }, h("header", {}, h("h2", {}, "Neighbours")), this.around),
      ),
    );
  }

  update() {
    const { listing } = this.selection;
    if (this.shown !== listing) {
      this.shown = listing;
      this.groups = grouped(this.program, listing);
      this.folds = folded(this.groups);
      this.open.clear();
    }
    const items = this.items();
    const { row } = this.selection;
    const related = new Set(row >= 0 ? listing.related(row) : []);
    const lit = items.flatMap((item, at) => (item.group && [...item.group.rows, ...item.group.backward].some((one) => related.has(one)) ? [at] : []));
    this.lanes.show(items, this.lanes.active);
    this.lanes.light(lit, this.lanes.active);
    fill(
      this.head,
      h("h2", {}, "Lanes"),
      h("span", { class: "fact" }, `forward down, backward up; ${counted(this.groups.length, "group")} in ${counted(items.length, "row")}`),
    );
    this.drawAround();
  }

  /** Rows: a fold's head where it repeats, then the groups of its first round, or of all if open. */
  items() {
    return this.folds.flatMap((fold, number) => {
      if (fold.times === 1) return fold.groups.map((group) => ({ group }));
      const isOpen = this.open.has(number);
      const shown = isOpen ? fold.groups : fold.groups.slice(0, fold.period);
      const inside = shown.map((group, at) => ({
        group,
        inside: true,
        stands: isOpen ? [group] : fold.groups.filter((_, other) => other % fold.period === at),
      }));
      return [{ fold, number, isOpen }, ...inside];
    });
  }

  drawItem(item) {
    if (item.fold) return this.drawFold(item);
    const { group } = item;
    const [source, line] = group.key.includes(":") ? group.key.split(":").map(Number) : [];
    const where = line ? this.program.shortPlace(group.key) : "";
    const text = line ? this.program.sourceText(source, line).trim() : group.key;
    const stands = item.stands ?? [group];
    const total = (pick) => stands.reduce((sum, one) => sum + this.flops(one[pick]), 0);
    return {
      className: item.inside ? "inside" : "",
      children: [
        h("span", { class: "node forward" }, h("span", { class: "arrow", "aria-hidden": "true" }, "↓"), h("span", { class: "code" }, cut(text, 120)), h("span", { class: "amount" }, inFlops(total("rows")))),
        h("span", { class: "link-line", "aria-hidden": "true" }),
        group.backward.length
          ? h("span", { class: "node backward" }, h("span", { class: "arrow", "aria-hidden": "true" }, "↑"), h("span", { class: "code" }, counted(group.backward.length, "line")), h("span", { class: "amount" }, inFlops(total("backward"))))
          : h("span", { class: "node none" }, "no adjoint"),
        h("span", { class: "where" }, where),
      ],
    };
  }

  drawFold({ fold, isOpen }) {
    return {
      className: "fold",
      children: [
        h("span", { class: "code" }, `${isOpen ? "▾" : "▸"} ${counted(fold.times, "time")} the same ${counted(fold.period, "line")}`),
        h("span", { class: "fact" }, isOpen ? "all shown" : "the first shown; costs are of all"),
      ],
    };
  }

  flops(rows) {
    return rows.reduce((sum, row) => sum + (this.shown.lines[row].flops ?? 0), 0);
  }

  chose(item) {
    if (item.fold) {
      if (item.isOpen) this.open.delete(item.number);
      else this.open.add(item.number);
      this.update();
      return;
    }
    const row = item.group.rows[item.group.rows.length - 1];
    this.selection.change({ row: this.shown.lines[row].name, line: null });
  }

  /** What the selected binding reads, itself with its adjoints, and who reads it: three columns. */
  drawAround() {
    const { listing, row } = this.selection;
    if (row < 0) {
      fill(this.around, h("p", { class: "hint" }, "Choose a row of the lanes: here stands what its value is made of, and who needs it."));
      return;
    }
    const column = (title, rows, kind) =>
      h(
        "div",
        { class: `near ${kind}` },
        h("h3", {}, title),
        rows.length ? rows.slice(0, 24).map((one) => this.box(listing, one)) : h("p", { class: "hint" }, "none"),
        rows.length > 24 ? h("p", { class: "fact" }, `and ${rows.length - 24} more`) : null,
      );
    const adjoints = listing.related(row).filter((one) => one !== row);
    fill(
      this.around,
      column("reads", listing.reads(row), "before"),
      column("selected", [row], "self"),
      column("read by", listing.readers(row), "after"),
      column(listing.lines[row].of === null ? "its adjoint" : "belongs to", adjoints, "beside"),
    );
  }

  box(listing, row) {
    const line = listing.lines[row];
    return h(
      "button",
      {
        type: "button",
        class: `node ${line.of === null ? "forward" : "backward"}`,
        onclick: () => this.selection.change({ row: line.name, line: null }),
      },
      h("span", { class: `code name${line.of === null ? "" : " adjoint"}` }, line.name),
      h("span", { class: "fact" }, `${line.operator} ${cut(shortType(line.parts.type), 28)}`),
    );
  }
}
