// Cost: FLOPs and bytes of the program, by the line of the source or by the operator.

const BOXES = 60; // of the map, and of each line in it; what is smaller is one box, or none
const MAP_HEAD = 20; // pixels, for what a line of the source says
const [MAP_WIDE, MAP_HIGH] = [1200, 240];

class CostView {
  constructor(selection) {
    this.selection = selection;
    this.program = selection.program;
    this.by = this.program.data.places.length ? "line" : "operator";
    this.profile = this.program.data.profile;
    this.field = this.profile ? "time" : "flops";
    this.tools = h("div", { class: "tools" });
    this.map = h("div", { class: "map" });
    this.list = new Rows({
      label: "Costs",
      className: "costs",
      draw: (item) => this.drawItem(item),
      chosen: (row) => this.chose(this.list.items[row]),
    });
    this.element = h("div", { class: "view cost" }, this.tools, this.map, h("div", { class: "columns one" }, this.list.element));
  }

  get unit() {
    return { flops: inFlops, bytes: inBytes, time: inTime }[this.field];
  }

  update() {
    const fields = [["flops", "FLOPs"], ["bytes", "Bytes"]];
    if (this.profile) fields.unshift(["time", "Time"]);
    fill(
      this.tools,
      choice("What is counted", fields, this.field, (field) => this.set({ field })),
      choice("By what", [["line", "By source line"], ["operator", "By operator"]], this.by, (by) => this.set({ by })),
      h(
        "span",
        { class: "legend" },
        h("span", { class: "key forward" }, "forward"),
        h("span", { class: "key backward" }, "backward"),
        this.field === "time" ? h("span", { class: "key shared" }, "both, or not known") : null,
      ),
    );
    const entries = this.entries();
    const items = this.items(entries);
    this.total = items.reduce((sum, item) => sum + item.size, 0);
    this.most = Math.max(0, ...items.map((item) => item.size));
    this.drawMap(items);
    this.list.show(items);
    this.map.hidden = !this.total;
    this.tools.append(h("span", { class: "hint" }, this.hint(entries)));
  }

  hint(entries) {
    if (this.field === "time") {
      const { device, origin, runs, milliseconds } = this.profile;
      return `${inTime(this.total)} of kernels in a run of ${inTime(milliseconds)} on ${device}, the middle of ${counted(runs, "run")}, with ${origin}`;
    }
    return entries.length ? "" : "no sizes are known, so no costs are";
  }

  set(changes) {
    Object.assign(this, changes);
    this.update();
  }

  /** What costs something: a binding, or a kernel with all the bindings that it computes. */
  entries() {
    if (this.field === "time") {
      const { ran } = this.program;
      return this.profile.kernels.map((kernel) => {
        const rows = kernel.bindings.map((name) => ran.byName.get(name)).filter((row) => row !== undefined);
        return { lines: rows.map((row) => ran.lines[row]), size: kernel.milliseconds, kernel };
      });
    }
    const { bindings } = this.selection.listing;
    return bindings.filter((line) => line[this.field]).map((line) => ({ lines: [line], size: line[this.field] }));
  }

  /** Entries of the same lines of the source, or of the same operators, together. */
  items(entries) {
    const found = new Map();
    for (const entry of entries) {
      const keys = [...new Set(entry.lines.map((line) => this.keyOf(line)))].sort(inPlace);
      const name = keys.join("|");
      if (!found.has(name)) found.set(name, { keys, size: 0, sides: { forward: 0, backward: 0, shared: 0 }, entries: [] });
      const item = found.get(name);
      item.size += entry.size;
      item.sides[sideOf(entry)] += entry.size;
      item.entries.push(entry);
    }
    return [...found.values()].filter((item) => item.size).sort((one, other) => other.size - one.size);
  }

  keyOf(line) {
    return this.by === "operator" ? line.operator : (this.program.lineKey(line.place) ?? "");
  }

  label({ keys }) {
    if (!keys.length) return { where: "", text: "no binding is known: copies and the like, by the compiler" };
    if (this.by === "operator") return { where: "", text: keys.join(" + ") };
    const texts = keys.map((key) => {
      if (!key) return "no line is known";
      const [source, line] = key.split(":").map(Number);
      return this.program.sourceText(source, line).trim();
    });
    const places = keys.filter(Boolean).map((key) => this.program.shortPlace(key));
    const where = places.length > 1 ? counted(places.length, "line") : (places[0] ?? "");
    return { where, text: texts.join(" + "), whole: places.join(", ") };
  }

  drawItem(item) {
    const { where, text, whole } = this.label(item);
    return {
      children: [
        h("span", { class: "where", title: whole }, where),
        h("span", { class: "code" }, cut(text)),
        h("span", { class: "delta" }, counted(item.entries.length, this.field === "time" ? "kernel" : "binding")),
        h("span", { class: "amount" }, this.unit(item.size)),
        h("span", { class: "share" }, share(item.size, this.total)),
        bar(Object.entries(item.sides), this.most),
      ],
    };
  }

  chose({ keys }) {
    if (this.by === "line" && keys[0]) this.selection.change({ ...this.home, view: "program", line: keys[0], row: null });
  }

  /** Where the bindings are that costs are of: times are those of the program that was run. */
  get home() {
    const { last, data } = this.program;
    return this.field === "time" ? { stage: last, function: data.function } : {};
  }

  /** Each line as large as its cost, and in it the bindings or the kernels that belong to it. */
  drawMap(items) {
    const large = items.slice(0, BOXES);
    const rest = items.slice(BOXES).reduce((sum, item) => sum + item.size, 0);
    const sizes = large.map((item) => item.size);
    const boxes = tiled(rest ? [...sizes, rest] : sizes, 0, 0, MAP_WIDE, MAP_HIGH);
    fill(this.map, boxes.map((box, at) => this.drawLineBox(box, large[at], sizes[at] ?? rest)));
    this.map.setAttribute("role", "img");
    this.map.setAttribute("aria-label", "Each binding as a box as large as its cost; the list below says the same of lines");
  }

  drawLineBox([x, y, width, height], item, size) {
    const { where, text } = item ? this.label(item) : { where: "", text: "all others" };
    const head = height > 60 && width > 90 ? MAP_HEAD : 0;
    const title = `${where} ${text}: ${this.unit(size)}, ${share(size, this.total)}`.trim();
    return h(
      "div",
      { class: "area", style: at([x, y, width, height], MAP_WIDE, MAP_HIGH), title },
      head ? h("div", { class: "caption" }, cut(text, 120), h("span", { class: "fact" }, ` ${this.unit(size)} · ${share(size, this.total)}`)) : null,
      h("div", { class: "boxes", style: `top:${head}px` }, item ? this.inner(item, width, height - head) : []),
    );
  }

  inner(item, width, height) {
    const sorted = [...item.entries].sort((one, other) => other.size - one.size).slice(0, BOXES);
    const boxes = tiled(sorted.map((entry) => entry.size), 0, 0, width, height);
    return boxes.map((box, number) => {
      const entry = sorted[number];
      const size = this.unit(entry.size);
      const name = entry.lines.length ? entry.lines.map((line) => line.name).join(" + ") : entry.kernel.name;
      const operators = [...new Set(entry.lines.map((line) => line.operator))].join(" + ");
      return h(
        "div",
        {
          class: `box ${sideOf(entry)}`,
          title: `${[name, operators].filter(Boolean).join(": ")}, ${size}`,
          style: at(box, width, height),
          onclick: () => this.choseEntry(entry),
        },
        box[2] > 48 && box[3] > 18 ? h("span", {}, cut(name, 40)) : null,
        box[2] > 48 && box[3] > 36 ? h("span", { class: "fact" }, size) : null,
      );
    });
  }

  choseEntry({ lines }) {
    if (lines.length) this.selection.change({ ...this.home, view: "program", row: lines[0].name, line: null });
  }
}

/** The part of the program that an entry belongs to, if it is one. */
function sideOf({ lines }) {
  const sides = new Set(lines.map((line) => (line.of === null ? "forward" : "backward")));
  return sides.size === 1 ? [...sides][0] : "shared";
}

/** Lines of sources in their order; operators by name. */
function inPlace(one, other) {
  return one.localeCompare(other, "en", { numeric: true });
}

/** Where a box lies, in shares of what it lies in. */
function at([x, y, width, height], wide, high) {
  const parts = { left: x / wide, top: y / high, width: width / wide, height: height / high };
  return Object.entries(parts).map(([side, part]) => `${side}:${(100 * part).toFixed(3)}%`).join(";");
}

/** Boxes that fill a rectangle, each as large as its size, in rows that keep them near squares. */
function tiled(sizes, x, y, width, height) {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  if (!sizes.length || !total) return [];
  const scale = (width * height) / total;
  const boxes = [];
  let at = 0;
  while (at < sizes.length) {
    const short = Math.min(width, height);
    let row = [];
    let worst = Infinity;
    for (let next = at; next < sizes.length; next++) {
      const tried = [...row, sizes[next] * scale];
      const ratio = longest(tried, short);
      if (ratio > worst) break;
      [row, worst] = [tried, ratio];
    }
    const thick = row.reduce((sum, area) => sum + area, 0) / Math.max(short, 1e-9);
    let along = 0;
    for (const area of row) {
      const length = area / Math.max(thick, 1e-9);
      boxes.push(width >= height ? [x, y + along, thick, length] : [x + along, y, length, thick]);
      along += length;
    }
    if (width >= height) [x, width] = [x + thick, width - thick];
    else [y, height] = [y + thick, height - thick];
    at += row.length;
  }
  return boxes;
}

/** How far from a square the longest box of a row is. */
function longest(areas, short) {
  const sum = areas.reduce((all, area) => all + area, 0);
  const ratios = areas.map((area) => (short * short * area) / (sum * sum));
  return Math.max(...ratios.map((ratio) => Math.max(ratio, 1 / Math.max(ratio, 1e-12))));
}
