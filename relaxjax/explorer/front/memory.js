// Memory: the bytes that are live over the program, by the plan that a slider chooses.

const [WIDE, HIGH] = [1000, 220]; // of the chart, which is stretched to its place

class MemoryView {
  constructor(selection) {
    this.selection = selection;
    this.program = selection.program;
    this.memory = this.program.data.memory;
    this.tools = h("div", { class: "tools" });
    this.alive = new Rows({
      label: "Alive at this moment",
      draw: (item) => this.drawAlive(item),
      chosen: (row) => this.go(this.alive.items[row].value),
    });
    this.lines = new Rows({
      label: "By line of the source",
      draw: (item) => this.drawLine(item),
      chosen: (row) => this.goLine(this.lines.items[row].key),
    });
    this.choices = new Rows({
      label: "Kept and computed again",
      className: "choices",
      draw: (item) => this.drawChoice(item),
      chosen: (row) => this.go(this.choices.items[row].value),
    });
    this.chart = h("div", {
      class: "chart",
      role: "slider",
      tabindex: "0",
      "aria-label": "Moment of the program",
      onkeydown: (event) => this.key(event),
      onpointerdown: (event) => this.point(event),
    });
    this.heads = { alive: h("header"), lines: h("header"), choices: h("header") };
    const column = (name) => h("section", { class: "column" }, this.heads[name], this[name].element);
    this.element = h(
      "div",
      { class: "view memory" },
      this.tools,
      this.memory ? this.chart : this.why(),
      this.memory ? h("div", { class: "columns" }, column("alive"), column("lines"), column("choices")) : null,
    );
    if (this.memory) this.lives = this.memory.plans.map(liveBytes);
  }

  why() {
    const { notes } = this.program.data;
    return h("p", { class: "hint" }, notes.length ? notes.join("; ") : "There is no backward program whose memory could be planned.");
  }

  get plan() {
    return this.memory.plans[this.number];
  }

  get number() {
    const { plan } = this.selection.state;
    return this.memory.plans[plan] ? plan : this.memory.chosen;
  }

  get live() {
    return this.lives[this.number];
  }

  /** The moment that is looked at, the one of the peak unless another is chosen. */
  get moment() {
    const { moment } = this.selection.state;
    return moment >= 0 && moment < this.live.length ? moment : this.live.indexOf(this.plan.peak);
  }

  update() {
    if (!this.memory) return;
    this.showTools();
    this.draw();
    const { plan, moment } = this;
    const alive = plan.lives
      .filter(([, start, end]) => start <= moment && moment <= end)
      .map(([value, , , bytes]) => ({ value, bytes }))
      .sort((one, other) => other.bytes - one.bytes);
    const sum = this.live[moment] ?? 0;
    this.most = Math.max(1, ...alive.map((item) => item.bytes));
    const at = plan.order.length ? this.name(plan.order[moment]) : "nothing";
    fill(
      this.heads.alive,
      h("h2", {}, "Alive"),
      h("span", { class: "fact" }, `${inBytes(sum)} in ${counted(alive.length, "value")} while ${at} is computed, moment ${moment + 1} of ${plan.order.length}`),
    );
    this.alive.show(alive);
    const lines = this.byLine(alive);
    this.mostOfLine = Math.max(1, ...lines.map((item) => item.bytes));
    fill(this.heads.lines, h("h2", {}, "By source line"), h("span", { class: "fact" }, "of what is alive"));
    this.lines.show(lines);
    const choices = [...plan.choices].sort((one, other) => other.bytes - one.bytes);
    const total = (kept) => choices.filter((item) => item.kept === kept).reduce((all, item) => all + item.bytes, 0);
    this.mostOfChoice = Math.max(1, ...choices.map((item) => item.bytes));
    fill(
      this.heads.choices,
      h("h2", {}, "Kept, and computed again"),
      h("span", { class: "fact" }, `${inBytes(total(true))} kept, ${inBytes(total(false))} again`),
    );
    this.choices.show(choices);
    const value = `${inBytes(sum)} alive while ${at} is computed`;
    for (const [name, set] of [["min", 0], ["max", plan.order.length - 1], ["now", moment], ["text", value]]) {
      this.chart.setAttribute(`aria-value${name}`, String(set));
    }
  }

  showTools() {
    const { memory, plan, number } = this;
    const everything = memory.plans[0].peak;
    const slider = h("input", {
      type: "range",
      min: 0,
      max: memory.plans.length - 1,
      step: 1,
      value: number,
      "aria-label": "Plan, from much memory to little",
      "aria-valuetext": plan.name,
      oninput: (event) => this.selection.change({ plan: Number(event.target.value), moment: null }),
    });
    const had = this.tools.querySelector("input") === document.activeElement;
    fill(
      this.tools,
      memory.plans.length > 1 ? h("label", { class: "picker slider" }, h("span", {}, "Plan"), slider) : null,
      h(
        "div",
        { class: "facts", role: "status" },
        h("strong", {}, plan.name),
        number === memory.chosen ? h("span", { class: "badge" }, "followed") : null,
        h("span", { class: "fact" }, `peak ${inBytes(plan.peak)}, ${share(plan.peak, everything)} of everything kept`),
        h("span", { class: "fact" }, `${inFlops(plan.extra_flops)} computed again, ${share(plan.extra_flops, memory.flops)}`),
        memory.budget === null ? null : h("span", { class: "fact" }, `budget ${inBytes(memory.budget)}`),
      ),
    );
    if (had && slider.isConnected) this.tools.querySelector("input").focus();
  }

  draw() {
    const { memory, plan, live, moment } = this;
    const top = Math.max(...this.lives.map((one) => Math.max(0, ...one)), memory.budget ?? 0, 1) * 1.06;
    const y = (bytes) => HIGH - (HIGH * bytes) / top;
    const x = (time, count) => (WIDE * time) / Math.max(1, count);
    const everything = this.lives[0];
    const turn = plan.order.map((value) => memory.values[value].backward).lastIndexOf(false) + 1;
    const parts = [
      turn < live.length ? svg("rect", { class: "back", x: x(turn, live.length), y: 0, width: WIDE - x(turn, live.length), height: HIGH }) : null,
      svg("path", { class: "area", d: `${steps(live, x, y)}V${HIGH}H0Z` }),
      svg("path", { class: "outline", d: steps(everything, x, y) }),
      memory.budget === null ? null : svg("line", { class: "budget", x1: 0, x2: WIDE, y1: y(memory.budget), y2: y(memory.budget) }),
      svg("line", { class: "cursor", x1: x(moment + 0.5, live.length), x2: x(moment + 0.5, live.length), y1: 0, y2: HIGH }),
    ].filter(Boolean);
    const drawing = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", "aria-hidden": "true" }, parts);
    const marks = [0, 0.5, 1].map((part) =>
      h("span", { class: "mark", style: `top:${(100 * y((part * top) / 1.06)) / HIGH}%` }, inBytes((part * top) / 1.06)),
    );
    fill(
      this.chart,
      h("div", { class: "scale", "aria-hidden": "true" }, marks),
      drawing,
      h(
        "div",
        { class: "legend", "aria-hidden": "true" },
        h("span", { class: "key area" }, "this plan"),
        h("span", { class: "key outline" }, "everything kept"),
        memory.budget === null ? null : h("span", { class: "key budget" }, "budget"),
        h("span", { class: "key back" }, "only the backward part"),
      ),
    );
  }

  point(event) {
    const { left, width } = this.chart.querySelector("svg").getBoundingClientRect();
    const part = Math.min(0.9999, Math.max(0, (event.clientX - left) / width));
    this.selection.change({ moment: Math.floor(part * this.live.length) });
  }

  key(event) {
    const far = Math.max(1, Math.round(this.live.length / 20));
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -far, PageDown: far, Home: -Infinity, End: Infinity };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const moment = Math.min(this.live.length - 1, Math.max(0, this.moment + steps[event.key]));
    this.selection.change({ moment });
  }

  name(number) {
    const { name, again } = this.memory.values[number];
    return again ? `${name} again` : name;
  }

  /** Bytes by the line of the source, those without one by the value. */
  byLine(alive) {
    const found = new Map();
    for (const { value, bytes } of alive) {
      const key = this.program.lineKey(this.memory.values[value].place);
      found.set(key, (found.get(key) ?? 0) + bytes);
    }
    return [...found].map(([key, bytes]) => ({ key, bytes })).sort((one, other) => other.bytes - one.bytes);
  }

  drawAlive({ value, bytes }) {
    const { backward } = this.memory.values[value];
    return {
      children: [
        h("span", { class: `code ${backward ? "name adjoint" : "name"}` }, this.name(value)),
        h("span", { class: "amount" }, inBytes(bytes)),
        bar([[backward ? "backward" : "forward", bytes]], this.most),
      ],
    };
  }

  drawLine({ key, bytes }) {
    const [source, line] = key === null ? [] : key.split(":").map(Number);
    const text = key === null ? "no line is known" : this.program.sourceText(source, line).trim();
    const place = key === null ? "" : this.program.shortPlace(key);
    return {
      children: [
        h("span", { class: "where" }, place),
        h("span", { class: "code" }, cut(text)),
        h("span", { class: "amount" }, inBytes(bytes)),
        bar([["forward", bytes]], this.mostOfLine),
      ],
    };
  }

  drawChoice({ value, bytes, kept, reason }) {
    return {
      children: [
        h("span", { class: `tag ${kept ? "kept" : "again"}` }, kept ? "kept" : "again"),
        h("span", { class: "code name", title: reason }, this.name(value)),
        h("span", { class: "amount" }, inBytes(bytes)),
        bar([[kept ? "forward" : "again", bytes]], this.mostOfChoice),
      ],
    };
  }

  go(value) {
    const { name } = this.memory.values[value];
    const shown = this.memory.function;
    const { last } = this.program;
    const stages = [last, ...this.program.stages.keys()].filter((at) => shown in this.program.stages[at]);
    const stage = stages.find((at) => this.program.listing(at, shown).byName.has(name)) ?? last;
    this.selection.change({ view: "program", stage, function: shown, row: name, line: null });
  }

  goLine(key) {
    if (key !== null) this.selection.change({ view: "program", line: key, row: null });
  }
}

/** The bytes that are live at each moment of a plan. */
function liveBytes(plan) {
  const changes = new Float64Array(plan.order.length + 1);
  for (const [, start, end, bytes] of plan.lives) {
    changes[start] += bytes;
    changes[end + 1] -= bytes;
  }
  const live = [];
  let now = 0;
  for (let time = 0; time < plan.order.length; time++) live.push((now += changes[time]));
  return live;
}

function steps(live, x, y) {
  const parts = live.map((bytes, time) => `V${y(bytes).toFixed(1)}H${x(time + 1, live.length).toFixed(2)}`);
  return `M0 ${HIGH}${parts.join("")}`;
}
