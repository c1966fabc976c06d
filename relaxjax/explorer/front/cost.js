// Cost: FLOPs and bytes of the program, by the line of the source or by the operator.

const BOXES = 60; // of the map, and of each line in it; what is smaller is one box, or none
const MAP_HEAD = 20; // pixels, for what a line of the source says
const [MAP_WIDE, MAP_HIGH] = [1200, 240];

class CostView {
  constructor(selection) {
    this.selection = selection;
    this.program = selection.program;
    this.by = this.program.data.places.length ? "line" : "operator";
    this.field = "flops";
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
    return this.field === "flops" ? inFlops : inBytes;
  }

  update() {
    fill(
      this.tools,
      choice("What is counted", [["flops", "FLOPs"], ["bytes", "Bytes"]], this.field, (field) => this.set({ field })),
      choice("By what", [["line", "By source line"], ["operator", "By operator"]], this.by, (by) => this.set({ by })),
      h(
        "span",
        { class: "legend" },
        h("span", { class: "key forward" }, "forward"),
        h("span", { class: "key backward" }, "backward"),
      ),
    );
    const items = this.items();
    this.total = items.reduce((sum, item) => sum + item.forward + item.backward, 0);
    this.most = Math.max(1, ...items.map((item) => item.forward + item.backward));
    const known = this.selection.listing.bindings.some((line) => line[this.field] !== null);
    this.drawMap(items);
    this.list.show(items);
    this.map.hidden = !this.total;
    if (!known) this.tools.append(h("span", { class: "hint" }, "no sizes are known, so no costs are"));
  }

  set(changes) {
    Object.assign(this, changes);
    this.update();
  }

  items() {
    const found = new Map();
    const { listing } = this.selection;
    for (const line of listing.bindings) {
      const amount = line[this.field] ?? 0;
      const key = this.by === "operator" ? line.operator : this.program.lineKey(line.place);
      if (!found.has(key)) found.set(key, { key, forward: 0, backward: 0, lines: [] });
      const item = found.get(key);
      item[line.of === null ? "forward" : "backward"] += amount;
      item.lines.push(line);
    }
    const size = (item) => item.forward + item.backward;
    return [...found.values()].filter(size).sort((one, other) => size(other) - size(one));
  }

  label({ key }) {
    if (this.by === "operator") return { where: "", text: key };
    if (key === null) return { where: "", text: "no line is known" };
    const [source, line] = key.split(":").map(Number);
    return { where: this.program.shortPlace(key), text: this.program.sourceText(source, line).trim() };
  }

  drawItem(item) {
    const { where, text } = this.label(item);
    const size = item.forward + item.backward;
    return {
      children: [
        h("span", { class: "where" }, where),
        h("span", { class: "code" }, cut(text)),
        h("span", { class: "delta" }, counted(item.lines.length, "binding")),
        h("span", { class: "amount" }, this.unit(size)),
        h("span", { class: "share" }, share(size, this.total)),
        bar([["forward", item.forward], ["backward", item.backward]], this.most),
      ],
    };
  }

  chose(item) {
    if (this.by === "line" && item.key !== null) this.selection.change({ view: "program", line: item.key, row: null });
  }

  /** Each line as large as its cost, and in it the bindings that belong to it. */
  drawMap(items) {
    const large = items.slice(0, BOXES);
    const rest = items.slice(BOXES).reduce((sum, item) => sum + item.forward + item.backward, 0);
    const sizes = large.map((item) => item.forward + item.backward);
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
    const sorted = item.lines.filter((line) => line[this.field]).sort((one, other) => other[this.field] - one[this.field]);
    const boxes = tiled(sorted.slice(0, BOXES).map((line) => line[this.field]), 0, 0, width, height);
    return boxes.map((box, number) => {
      const line = sorted[number];
      const size = this.unit(line[this.field]);
      return h(
        "div",
        {
          class: `box ${line.of === null ? "forward" : "backward"}`,
          title: `${line.name}: ${line.operator}, ${size}`,
          style: at(box, width, height),
          onclick: () => this.selection.change({ view: "program", row: line.name, line: null }),
        },
        box[2] > 48 && box[3] > 18 ? h("span", {}, cut(line.name, 40)) : null,
        box[2] > 48 && box[3] > 36 ? h("span", { class: "fact" }, size) : null,
      );
    });
  }
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
