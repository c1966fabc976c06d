// Devices: what they tell each other in a step, for which value and line, and whether work hides it.

class DevicesView {
  constructor(selection) {
    this.selection = selection;
    this.program = selection.program;
    const { mesh, exchanges } = this.program.data.communication;
    this.kinds = new Map();
    for (const { kind, bytes } of exchanges) this.kinds.set(kind, (this.kinds.get(kind) ?? 0) + bytes);
    this.total = exchanges.reduce((sum, one) => sum + one.bytes, 0);
    this.most = Math.max(0, ...exchanges.map((one) => one.bytes));
    this.list = new Rows({
      label: "Exchanges",
      className: "exchanges",
      draw: (item) => this.drawItem(item),
      chosen: (row) => this.chose(this.list.items[row]),
    });
    const axes = Object.entries(mesh).map(([name, size]) => `${name} ${size}`).join(" × ");
    this.element = h(
      "div",
      { class: "view devices" },
      h(
        "div",
        { class: "tools" },
        h(
          "div",
          { class: "facts" },
          h("strong", {}, `${inBytes(this.total)} a step and device`),
          h("span", { class: "badge" }, `a mesh of ${axes}`),
          [...this.kinds].map(([kind, bytes]) => h("span", { class: "fact" }, `${kind} ${inBytes(bytes)}`)),
        ),
      ),
      h(
        "div",
        { class: "columns one" },
        h(
          "section",
          { class: "column" },
          h(
            "header",
            { class: "titles" },
            h("h2", {}, "Exchanges"),
            h("span", { class: "fact along" }, "axis"),
            h("span", { class: "fact part-of" }, "part"),
            h("span", { class: "fact hides" }, "overlapped"),
            h("span", { class: "fact often" }, "times"),
            h("span", { class: "fact amount" }, "bytes"),
            h("span", { class: "bar none" }),
          ),
          this.list.element,
        ),
      ),
    );
    this.list.show(exchanges);
  }

  update() {
    const { row, line } = this.selection.state;
    const { exchanges } = this.program.data.communication;
    const lit = exchanges.flatMap((one, at) => (row !== undefined && one.value === row) || (line !== undefined && this.program.lineKey(one.place) === line) ? [at] : []);
    this.list.light(lit, this.list.active);
  }

  drawItem({ kind, bytes, times, axes, part, value, place, overlapped }) {
    const key = this.program.lineKey(place);
    const [source, line] = key === null ? [] : key.split(":").map(Number);
    const hides = { true: "yes", false: "no" }[overlapped] ?? "not known";
    return {
      children: [
        h("span", { class: "where" }, key === null ? "" : this.program.shortPlace(key)),
        h("span", { class: "kind" }, kind),
        h("span", { class: "code" }, h("span", { class: part === "backward" ? "name adjoint" : "name" }, value ?? "several values"), key === null ? "" : `  ${cut(this.program.sourceText(source, line).trim(), 120)}`),
        h("span", { class: "fact along" }, axes === null ? "not known" : axes.join(", ")),
        h("span", { class: "fact part-of" }, part),
        h("span", { class: "fact hides" }, hides),
        h("span", { class: "fact often" }, times === null ? "not known" : times.toLocaleString("en")),
        h("span", { class: "amount" }, `${inBytes(bytes)}${times === null ? " or more" : ""}`),
        bar([[part === "backward" ? "backward" : part === "forward" ? "forward" : "spent", bytes]], this.most),
      ],
    };
  }

  chose({ value, place }) {
    const { last } = this.program;
    const home = this.program.functions(last).find((name) => value !== null && this.program.listing(last, name).byName.has(value));
    if (home) this.selection.change({ view: "program", stage: last, function: home, row: value, line: null });
    else if (place !== null) this.selection.change({ view: "program", line: this.program.lineKey(place), row: null });
  }
}
