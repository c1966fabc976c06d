// Numbers: what the bindings computed in one step, and how large the gradients of values are.

const [FIELD_WIDE, FIELD_HIGH] = [1000, 200]; // of the drawing, which is stretched to its place
const MOST_SHRINK = 1e-4; // of the largest gradient; much smaller ones are vanishing
const MOST_LARGE = 1e4; // beyond it, a gradient explodes

class NumbersView {
  constructor(selection) {
    this.selection = selection;
    this.program = selection.program;
    const { values, least } = this.program.data.numbers;
    this.least = least;
    const { ran } = this.program;
    const isForward = (value) => (ran.byName.get(value.var) ?? -1) < ran.split;
    this.values = values.filter(isForward);
    this.back = values.filter((value) => !isForward(value));
    this.isBack = new Set(this.back);
    this.given = this.values.findIndex((value) => ran.byName.has(value.var));
    const taken = values.filter((value) => value.octaves.length);
    this.first = Math.min(...taken.map((value) => value.first));
    this.past = Math.max(...taken.map((value) => value.first + value.octaves.length));
    this.chart = h("div", {
      class: "chart numbers",
      role: "slider",
      tabindex: "0",
      "aria-label": "Value of the program",
      onkeydown: (event) => this.key(event),
      onpointerdown: (event) => this.point(event),
    });
    this.detail = h("div", { class: "detail", role: "status" });
    const list = (label) => new Rows({ label, className: "seen", draw: (item) => this.drawItem(item), chosen: (row) => this.choose(this.lists[label].items[row].var) });
    this.lists = { Values: list("Values"), Gradients: list("Gradients") };
    const axis = `${this.octave(this.first)} to ${this.octave(this.past)}`;
    const column = (label, note) =>
      h(
        "section",
        { class: "column" },
        h(
          "header",
          { class: "titles" },
          h("h2", {}, label, " ", h("span", { class: "fact" }, note)),
          h("span", { class: "fact range" }, "range"),
          h("span", { class: "fact axis", title: "how many numbers lie between two powers of two, the same axis for all" }, axis),
          h("span", { class: "fact amount" }, "rms"),
        ),
        this.lists[label].element,
      );
    this.element = h(
      "div",
      { class: "view numbers" },
      h("div", { class: "tools" }, h("div", { class: "facts" }, this.verdicts())),
      this.chart,
      this.detail,
      h(
        "div",
        { class: "columns two" },
        column("Values", "arguments, forward part"),
        column("Gradients", "backward part"),
      ),
    );
    this.lists.Values.show(this.values);
    this.lists.Gradients.show(this.back);
  }

  octave(number) {
    return shortNumber(Number((2 ** (number + this.least)).toPrecision(2)));
  }

  /** What is wrong at a glance, and where the numbers are from. */
  verdicts() {
    const { origin, values } = this.program.data.numbers;
    const count = (pick) => values.filter(pick).length;
    const gradients = values.filter((value) => value.gradient_of && value.rms);
    const largest = Math.max(0, ...gradients.map((value) => value.rms));
    const found = [
      [count((value) => value.nan), "with NaN"],
      [count((value) => value.infinite), "with infinite numbers"],
      [gradients.filter((value) => value.rms > MOST_LARGE).length, `with a gradient beyond ${shortNumber(MOST_LARGE)}: exploding`],
      [gradients.filter((value) => value.rms < MOST_SHRINK * largest).length, "with a gradient below a ten thousandth of the largest: vanishing"],
      [count((value) => value.gradient_of && value.rms === 0), "with a gradient of zeros"],
    ].filter(([number]) => number);
    const badges = found.map(([number, what]) => h("span", { class: "badge bad" }, `${counted(number, "value")} ${what}`));
    return [
      ...(badges.length ? badges : [h("span", { class: "badge good" }, "all numbers are finite, no gradient explodes or vanishes")]),
      h("span", { class: "fact" }, `one step, binding by binding, with ${origin}`),
    ];
  }

  /** The value that is looked at, the first one with a gradient unless another is chosen. */
  get place() {
    const { row } = this.selection.state;
    const of = this.program.numbersOf(row).value?.gradient_of;
    const found = this.values.findIndex((value) => value.var === row);
    const other = this.values.findIndex((value) => value.var === of);
    const standard = this.values.findIndex((value) => this.program.numbersOf(value.var).gradient);
    return Math.max(0, found >= 0 ? found : other >= 0 ? other : standard);
  }

  update() {
    const { place } = this;
    const { var: name } = this.values[place];
    const { value, gradient } = this.program.numbersOf(name);
    this.draw(place);
    fill(
      this.detail,
      this.described("name", name, value),
      gradient ? this.described("name adjoint", gradient.var, gradient) : h("p", { class: "hint" }, "no binding is its whole gradient"),
    );
    this.lists.Values.light([place], place, true);
    const row = gradient ? this.back.indexOf(gradient) : -1;
    this.lists.Gradients.light(row >= 0 ? [row] : [], row, true);
    const told = [`${name}: ${inNumbers(value)}`, gradient ? `gradient: ${inNumbers(gradient)}` : "no gradient"].join("; ");
    for (const [attribute, set] of [["min", 0], ["max", this.values.length - 1], ["now", place], ["text", told]]) {
      this.chart.setAttribute(`aria-value${attribute}`, String(set));
    }
  }

  described(kind, name, value) {
    return h(
      "div",
      { class: "one" },
      this.histogram(value, kind === "name" ? "forward" : "backward"),
      h(
        "p",
        {},
        this.program.ran.byName.has(name)
          ? h("button", { type: "button", class: `link ${kind}`, onclick: () => this.go(name) }, name)
          : h("span", { class: `code ${kind}` }, name),
        value.gradient_of ? h("span", { class: "fact" }, ` the gradient of ${value.gradient_of}`) : null,
        h("br"),
        h("span", { class: "fact" }, inNumbers(value)),
      ),
    );
  }

  /** Root mean squares over the program, those of values and those of their gradients. */
  draw(place) {
    const { program, values } = this;
    const gradients = values.map((value) => program.numbersOf(value.var).gradient);
    const shown = [...values, ...gradients].filter((value) => value?.rms).map((value) => Math.log10(value.rms));
    const low = Math.floor(Math.min(0, ...shown));
    const high = Math.max(low + 1, Math.ceil(Math.max(0, ...shown)));
    const x = (at) => (FIELD_WIDE * (at + 0.5)) / values.length;
    const y = (rms) => FIELD_HIGH - (FIELD_HIGH * (Math.log10(rms) - low)) / (high - low);
    const bad = values.flatMap((value, at) => (isBad(value) || isBad(gradients[at]) ? [at] : []));
    const step = FIELD_WIDE / values.length;
    const decades = Array.from({ length: high - low + 1 }, (_, at) => low + at);
    const every = Math.ceil(decades.length / 6);
    const drawing = svg(
      "svg",
      { viewBox: `0 0 ${FIELD_WIDE} ${FIELD_HIGH}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      this.given > 0 ? svg("rect", { class: "given", x: 0, y: 0, width: this.given * step, height: FIELD_HIGH }) : null,
      decades.filter((_, at) => at % every === 0).map((decade) => svg("line", { class: "decade", x1: 0, x2: FIELD_WIDE, y1: y(10 ** decade), y2: y(10 ** decade) })),
      bad.map((at) => svg("rect", { class: "bad", x: at * step, y: 0, width: step, height: FIELD_HIGH })),
      svg("path", { class: "outline values", d: joined(values, x, y) }),
      svg("path", { class: "outline gradients", d: joined(gradients, x, y) }),
      svg("line", { class: "cursor", x1: x(place), x2: x(place), y1: 0, y2: FIELD_HIGH }),
    );
    const marks = decades
      .filter((_, at) => at % every === 0)
      .map((decade) => h("span", { class: "mark", style: `top:${(100 * y(10 ** decade)) / FIELD_HIGH}%` }, shortNumber(Number(`1e${decade}`))));
    fill(
      this.chart,
      h("div", { class: "scale", "aria-hidden": "true" }, marks),
      drawing,
      h(
        "div",
        { class: "legend", "aria-hidden": "true" },
        h("span", { class: "key values" }, "root mean square of each value"),
        h("span", { class: "key gradients" }, "of its gradient"),
        this.given > 0 ? h("span", { class: "key given" }, "arguments") : null,
        bad.length ? h("span", { class: "key bad" }, "not finite") : null,
      ),
    );
  }

  point(event) {
    const { left, width } = this.chart.querySelector("svg").getBoundingClientRect();
    const part = Math.min(0.9999, Math.max(0, (event.clientX - left) / width));
    this.choose(this.values[Math.floor(part * this.values.length)].var);
  }

  key(event) {
    const far = Math.max(1, Math.round(this.values.length / 20));
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -far, PageDown: far, Home: -Infinity, End: Infinity };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const place = Math.min(this.values.length - 1, Math.max(0, this.place + steps[event.key]));
    this.choose(this.values[place].var);
  }

  choose(name) {
    const { last, data } = this.program;
    this.selection.change({ stage: last, function: data.function, row: name, line: null });
  }

  go(name) {
    this.choose(name);
    this.selection.change({ view: "program" });
  }

  drawItem(value) {
    const isBack = this.isBack.has(value);
    const trouble = isBad(value) ? `${value.nan ? "NaN" : "infinite"}` : "";
    return {
      className: trouble ? "wrong" : "",
      children: [
        h("span", { class: `code name${isBack ? " adjoint" : ""}` }, value.var),
        value.gradient_of ? h("span", { class: "fact of" }, `of ${cut(value.gradient_of, 20)}`) : null,
        trouble ? h("span", { class: "badge bad" }, trouble) : null,
        h("span", { class: "fact range" }, rangeOf(value)),
        this.histogram(value, isBack ? "backward" : "forward"),
        h("span", { class: "amount" }, value.rms === null ? "none" : shortNumber(value.rms)),
      ],
    };
  }

  /** How many numbers lie in each octave, on an axis that all values share. */
  histogram({ first, octaves }, kind) {
    const wide = Math.max(1, this.past - this.first);
    const most = Math.max(1, ...octaves);
    const bars = octaves.map((count, at) => {
      const high = count ? Math.max(1, (24 * count) / most) : 0;
      return svg("rect", { x: first - this.first + at + 0.08, y: 24 - high, width: 0.84, height: high });
    });
    return svg("svg", { class: `histogram ${kind}`, viewBox: `0 0 ${wide} 24`, preserveAspectRatio: "none", "aria-hidden": "true" }, bars);
  }
}

const isBad = (value) => Boolean(value && (value.nan || value.infinite));

/** A line through the root mean squares of values, broken where there is none. */
function joined(values, x, y) {
  let isOpen = false;
  const parts = values.map((value, at) => {
    if (!value?.rms) return "";
    const to = `${x(at).toFixed(2)} ${y(value.rms).toFixed(1)}`;
    const part = isOpen ? `L${to}` : `M${to}h0.01`;
    isOpen = true;
    return part;
  });
  return parts.join("") || "M0 0";
}
