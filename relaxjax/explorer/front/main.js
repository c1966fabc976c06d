// The page itself: its head, the views, and the switch between light and dark.

class Page {
  constructor(program) {
    this.program = program;
    this.selection = new Selection(program);
    this.titles = viewsOf(program.data);
    this.views = {
      program: new Columns(this.selection),
      passes: new Travel(this.selection),
      memory: new MemoryView(this.selection),
      cost: new CostView(this.selection),
      graph: new GraphView(this.selection),
      numbers: program.data.numbers ? new NumbersView(this.selection) : null,
      devices: program.data.communication ? new DevicesView(this.selection) : null,
    };
    this.tabs = Object.entries(this.titles).map(([view, title]) =>
      h(
        "button",
        {
          type: "button",
          role: "tab",
          id: `tab-${view}`,
          "aria-controls": "panel",
          onclick: () => this.selection.change({ view }),
        },
        title,
      ),
    );
    document.body.classList.toggle("single", program.data.sources.length < 2);
    this.panel = h("div", { id: "panel", class: "panel", role: "tabpanel" });
    fill(
      document.getElementById("app"),
      h(
        "header",
        { class: "top" },
        h("h1", {}, program.data.title),
        h("p", { class: "summary" }, this.summary()),
        h("div", { class: "tabs", role: "tablist", "aria-label": "Views", onkeydown: (event) => this.key(event) }, this.tabs),
        this.themeSwitch(),
      ),
      h("main", {}, this.panel),
    );
    this.selection.listen(() => this.update());
    this.update();
  }

  summary() {
    const { data, last } = this.program;
    const shown = data.function ?? this.program.functions(last)[0];
    const bindings = shown === undefined ? [] : this.program.listing(last, shown).bindings;
    const flops = bindings.reduce((sum, line) => sum + (line.flops ?? 0), 0);
    const facts = [counted(bindings.length, "binding"), inFlops(flops)];
    if (data.memory) facts.push(`peak ${inBytes(data.memory.plans[data.memory.chosen].peak)}`);
    return [shown ?? "an empty module", ...facts, ...data.notes].join(" · ");
  }

  update() {
    const { view } = this.selection.state;
    for (const tab of this.tabs) {
      const isChosen = tab.id === `tab-${view}`;
      tab.setAttribute("aria-selected", String(isChosen));
      tab.tabIndex = isChosen ? 0 : -1;
      if (isChosen) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    const { element } = this.views[view];
    this.panel.setAttribute("aria-labelledby", `tab-${view}`);
    if (this.panel.firstChild !== element) fill(this.panel, element);
    this.views[view].update();
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const names = Object.keys(this.titles);
    const at = (names.indexOf(this.selection.state.view) + step + names.length) % names.length;
    this.selection.change({ view: names[at] });
    this.tabs[at].focus();
  }

  /** Light or dark as the system has it, until somebody chooses. */
  themeSwitch() {
    const root = document.documentElement;
    const isDark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    const button = h("button", {
      type: "button",
      class: "theme",
      onclick: () => {
        root.dataset.theme = isDark() ? "light" : "dark";
        show();
      },
    });
    const show = () => {
      fill(button, isDark() ? "Light" : "Dark");
      button.setAttribute("aria-label", `Show in ${isDark() ? "light" : "dark"} colours`);
    };
    show();
    return button;
  }
}

unpacked().then((data) => {
  new Page(new Program(data));
  performance.mark("shown"); // by which a tool can tell how long it took
});
