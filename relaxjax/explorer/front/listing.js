// How a line of a program looks, and all that is known of one.

/** The children of a program's line: its number, its code, and its type in short. */
function drawLine(line, number, sign = "") {
  const { indent, name, type, value } = line.parts;
  const code = h("span", { class: "code" }, indent);
  if (name) {
    const operator = /^[\w.]+(?=\()/.exec(value)?.[0] ?? "";
    code.append(
      h("span", { class: line.of === null ? "name" : "name adjoint" }, name),
      " = ",
      h("span", { class: "operator" }, operator),
      cut(value.slice(operator.length)),
    );
  } else {
    code.append(h("span", { class: "frame" }, cut(shortType(value))));
  }
  return [
    h("span", { class: "number", "aria-hidden": "true" }, String(number)),
    sign ? h("span", { class: "sign" }, sign) : null,
    code,
    type ? h("span", { class: "type" }, cut(shortType(type), 40)) : null,
  ];
}

/** What a kernel takes, and whether that is for one binding alone. */
function timeOf(kernel) {
  const others = kernel.bindings.length - 1;
  const time = inTime(kernel.milliseconds);
  return others ? `in a kernel of ${time} with ${counted(others, "other binding")}` : time;
}

function rangeOf({ low, high }) {
  return low === high ? shortNumber(low) : `${shortNumber(low)} to ${shortNumber(high)}`;
}

/** The numbers of a value in a few words. */
function inNumbers({ count, nan, infinite, zeros, low, high, rms }) {
  const facts = [`rms ${shortNumber(rms)}`, rangeOf({ low, high })];
  if (nan) facts.push(`${nan.toLocaleString("en")} of ${counted(count, "number")} NaN`);
  if (infinite) facts.push(`${infinite.toLocaleString("en")} of ${counted(count, "number")} infinite`);
  if (zeros && low !== high) facts.push(`${share(zeros, count)} zeros`);
  return facts.join(", ");
}

/** The panel that tells all of the selected binding, or of the selected line of a source. */
class Inspector {
  constructor(selection) {
    this.selection = selection;
    this.element = h("section", { class: "inspector", "aria-label": "What is selected", "aria-live": "polite" });
    selection.listen(() => this.update());
    this.update();
  }

  update() {
    const { listing, row, state } = this.selection;
    if (row >= 0) this.binding(listing, row);
    else if (state.line) this.line(state.line);
    else fill(this.element, h("p", { class: "hint" }, "Choose a line, of the source or of the program, and all that belongs to it lights up. Arrow keys move in a list."));
  }

  binding(listing, row) {
    const { program } = this.selection;
    const line = listing.lines[row];
    const related = listing.related(row).filter((other) => other !== row);
    fill(
      this.element,
      h(
        "div",
        { class: "head" },
        h("h2", {}, h("span", { class: line.of === null ? "name" : "name adjoint" }, line.name)),
        h("span", { class: "badge" }, line.of === null ? "forward" : `part of the derivative of ${line.of}`),
        line.flops === null ? null : h("span", { class: "fact" }, inFlops(line.flops)),
        line.bytes === null ? null : h("span", { class: "fact" }, `${inBytes(line.bytes)} moved`),
        this.seen(listing, line),
      ),
      h("pre", { class: "whole", tabindex: "0", "aria-label": "The whole line" }, line.text.trim()),
      this.placed(program.place(line.place)),
      this.named(line.of === null ? "its adjoint" : "belongs to", listing, related),
      this.named("reads", listing, listing.reads(row)),
      this.named("is read by", listing, listing.readers(row)),
    );
  }

  /** What was seen of a binding where the program was run: its time, and its numbers. */
  seen(listing, line) {
    const { program } = this.selection;
    if (listing !== program.ran) return null;
    const { value, gradient } = program.numbersOf(line.name);
    return [
      ...program.kernelsOf(line.name).map((kernel) => h("span", { class: "fact" }, timeOf(kernel))),
      value ? h("span", { class: "fact" }, inNumbers(value)) : null,
      gradient ? h("span", { class: "fact" }, `gradient: ${inNumbers(gradient)}`) : null,
    ];
  }

  line(key) {
    const { program, listing } = this.selection;
    const [source, line] = key.split(":").map(Number);
    const rows = listing.byPlace.get(key) ?? [];
    const sum = (field) => rows.reduce((total, row) => total + (listing.lines[row][field] ?? 0), 0);
    fill(
      this.element,
      h(
        "div",
        { class: "head" },
        h("h2", {}, `${program.sourceName(source)}:${line}`),
        h("span", { class: "badge" }, counted(rows.length, "binding")),
        h("span", { class: "fact" }, inFlops(sum("flops"))),
        h("span", { class: "fact" }, `${inBytes(sum("bytes"))} moved`),
      ),
      h("pre", { class: "whole", tabindex: "0", "aria-label": "The whole line" }, program.sourceText(source, line).trim()),
      this.named("forward", listing, rows.filter((row) => listing.lines[row].of === null)),
      this.named("backward", listing, rows.filter((row) => listing.lines[row].of !== null)),
    );
  }

  placed(place) {
    if (place === null) return null;
    const { program } = this.selection;
    const key = `${place.source}:${place.line}`;
    return h(
      "p",
      { class: "facts" },
      h("span", { class: "what" }, "written at"),
      h(
        "button",
        { type: "button", class: "link", onclick: () => this.selection.change({ line: key, row: null }) },
        `${program.sourceName(place.source)}:${place.line}`,
      ),
      h("code", {}, cut(program.sourceText(place.source, place.line).trim(), 120)),
    );
  }

  named(what, listing, rows) {
    if (!rows.length) return null;
    const buttons = rows.slice(0, 12).map((row) =>
      h(
        "button",
        {
          type: "button",
          class: `link ${listing.lines[row].of === null ? "name" : "name adjoint"}`,
          onclick: () => this.selection.change({ row: listing.lines[row].name, line: null }),
        },
        listing.lines[row].name,
      ),
    );
    const more = rows.length > 12 ? h("span", { class: "fact" }, `and ${rows.length - 12} more`) : null;
    return h("p", { class: "facts" }, h("span", { class: "what" }, what), buttons, more);
  }
}
