// Time travel: every pass with what it did, and the difference between any two moments.

const AROUND = 3; // lines that are shown around a change
const MOST = 100; // rewrites of one rule that are shown

class Travel {
  constructor(selection) {
    this.selection = selection;
    this.program = selection.program;
    this.isShort = true;
    this.list = new Rows({
      label: "Passes",
      className: "stages",
      draw: (stage) => this.drawStage(stage),
      chosen: (row) => this.selection.change({ stage: this.list.items[row].at, from: null }),
    });
    this.changes = new Rows({
      label: "What changed",
      className: "changes",
      draw: (row) => this.drawChange(row),
      chosen: (row) => this.chosen(row),
    });
    this.tools = h("div", { class: "tools" });
    this.head = h("header");
    this.rules = h("div", { class: "rules" });
    this.element = h(
      "div",
      { class: "view passes" },
      this.tools,
      h(
        "div",
        { class: "columns two" },
        h("section", { class: "column" }, this.titles(), this.list.element),
        h("section", { class: "column" }, this.head, this.rules, this.changes.element),
      ),
    );
    this.slowest = Math.max(1e-9, ...this.program.data.stages.map((stage) => stage.milliseconds ?? 0));
  }

  titles() {
    const titles = [["delta", "bindings"], ["delta", "FLOPs"], ["delta wide", "bytes"], ["time", "time"]];
    return h(
      "header",
      { class: "titles" },
      h("h2", {}, "Passes"),
      titles.map(([kind, title]) => h("span", { class: `fact ${kind}` }, title)),
      h("span", { class: "bar none" }),
    );
  }

  get stages() {
    const all = this.program.data.stages.map((stage, at) => ({ stage, at, before: this.program.data.stages[at - 1] }));
    const { stage: chosen, from } = this.selection.state;
    const matters = ({ stage, at }) => at === 0 || at === chosen || at === from || Object.keys(stage.changed).length || stage.gone.length;
    return this.isShort ? all.filter(matters) : all;
  }

  update() {
    const { data, last } = this.program;
    const { stage, from = Math.max(0, stage - 1) } = this.selection.state;
    const moments = data.stages.map((one, at) => [at, `${at}. ${one.name}`]);
    const hidden = data.stages.length - this.stages.length;
    fill(
      this.tools,
      picker("From", moments, from, (at) => this.selection.change({ from: Number(at) })),
      picker("to", moments, stage, (at) => this.selection.change({ stage: Number(at), from })),
      h("button", { type: "button", onclick: () => this.selection.change({ from: 0, stage: last }) }, "From first to last"),
      h(
        "button",
        { type: "button", "aria-pressed": String(!this.isShort), onclick: () => this.toggle() },
        this.isShort && hidden ? `Show ${hidden} that changed nothing` : "Only those that changed something",
      ),
    );
    const stages = this.stages;
    this.list.show(stages, stages.findIndex((one) => one.at === stage));
    this.list.reveal(Math.max(0, this.list.active));
    const rows = this.compared(from, stage);
    const [gone, fresh] = ["gone", "new"].map((kind) => rows.filter((row) => row.kind === kind).length);
    fill(
      this.head,
      h("h2", {}, `${from}. ${data.stages[from].name} → ${stage}. ${data.stages[stage].name}`),
      h("span", { class: "fact" }, `${counted(fresh, "line")} came, ${counted(gone, "line")} went`),
      h("p", { class: "about" }, stage - from === 1 ? data.stages[stage].about : ""),
    );
    this.showRules(from, stage);
    this.changes.show(rows.length ? rows : [{ kind: "gap", text: "no line differs" }]);
    this.changes.element.scrollTop = 0;
  }

  /** What rules did between two moments, by the rule, the most busy first. */
  showRules(from, to) {
    const all = this.program.data.stages.slice(from + 1, to + 1).flatMap((stage) => stage.rewritten);
    const byRule = new Map();
    for (const one of all) byRule.set(one.rule, [...(byRule.get(one.rule) ?? []), one]);
    const rules = [...byRule].sort(([, one], [, other]) => other.length - one.length);
    fill(
      this.rules,
      rules.map(([rule, rewrites]) =>
        h(
          "details",
          {},
          h("summary", {}, h("code", {}, rule), ` rewrote ${counted(rewrites.length, "value")}`),
          rewrites.slice(0, MOST).map((one) =>
            h(
              "p",
              { class: "code" },
              h("span", { class: "name" }, one.var),
              one.function === null ? " = " : ` of ${one.function} = `,
              h("del", {}, cut(one.before)),
              " → ",
              h("ins", {}, cut(one.after)),
            ),
          ),
          rewrites.length > MOST ? h("p", { class: "about" }, `and ${rewrites.length - MOST} more`) : null,
        ),
      ),
    );
  }

  toggle() {
    this.isShort = !this.isShort;
    this.selection.tell();
  }

  drawStage({ stage, at, before }) {
    const milliseconds = stage.milliseconds ?? 0;
    return {
      className: Object.keys(stage.changed).length || stage.gone.length ? "" : "still",
      children: [
        h("span", { class: "number", "aria-hidden": "true" }, String(at)),
        h("span", { class: "pass" }, stage.name),
        h("span", { class: "delta", title: "bindings" }, before ? step(stage.bindings - before.bindings) : stage.bindings.toLocaleString("en")),
        h("span", { class: "delta", title: "FLOPs" }, before ? stepIn(stage.flops - before.flops, inFlops) : inFlops(stage.flops)),
        h("span", { class: "delta wide", title: "bytes" }, before ? stepIn(stage.bytes - before.bytes, inBytes) : inBytes(stage.bytes)),
        h("span", { class: "time" }, stage.milliseconds === null ? "" : inTime(milliseconds)),
        bar([["spent", milliseconds]], this.slowest),
      ],
    };
  }

  /** The changed lines of all functions between two moments, with a few lines around each. */
  compared(from, to) {
    const [before, after] = [this.program.stages[from], this.program.stages[to]];
    const rows = [];
    for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
      if (before[name] === after[name]) continue;
      const all = difference(before[name] ?? [], after[name] ?? []);
      if (all.every((row) => row.kind === "same")) continue;
      rows.push({ kind: "head", text: name === "" ? "attributes of the module" : name });
      rows.push(...near(all).map((row) => ({ ...row, name })));
    }
    return rows;
  }

  drawChange(row) {
    if (row.kind === "head") return { className: "head", children: [h("span", { class: "code" }, row.text)] };
    if (row.kind === "gap") return { className: "gap", children: [h("span", { class: "code" }, row.text ?? `⋯ ${counted(row.count, "line")} the same`)] };
    const sign = { gone: "−", new: "+", same: " " }[row.kind];
    return { className: row.kind, children: drawLine(this.program.line(row.number), "", sign) };
  }

  chosen(row) {
    const { kind, number, name } = this.changes.items[row];
    if (kind === "head" || kind === "gap" || kind === "gone" || !name) return;
    const line = this.program.line(number);
    if (line.name !== null) this.selection.change({ view: "program", function: name, row: line.name, line: null });
  }
}

/** Rows that changed, those near to them, and how many were left out between. */
function near(rows) {
  const keep = new Uint8Array(rows.length);
  rows.forEach((row, at) => {
    if (row.kind !== "same") keep.fill(1, Math.max(0, at - AROUND), at + AROUND + 1);
  });
  const found = [];
  let left = 0;
  rows.forEach((row, at) => {
    if (keep[at]) {
      if (left) found.push({ kind: "gap", count: left });
      left = 0;
      found.push(row);
    } else {
      left++;
    }
  });
  if (left) found.push({ kind: "gap", count: left });
  return found;
}

const step = (difference) => (difference ? `${difference > 0 ? "+" : "−"}${Math.abs(difference).toLocaleString("en")}` : "·");
const stepIn = (difference, unit) => (difference ? `${difference > 0 ? "+" : ""}${unit(difference)}` : "·");
