// What is looked at, kept in the fragment of the page's address, so that it can be sent to others.

/** The views of a document, by what the address calls them; some are of what was run. */
function viewsOf(data) {
  const found = { program: "Program", passes: "Passes", memory: "Memory", cost: "Cost", graph: "Graph" };
  if (data.numbers) found.numbers = "Numbers";
  if (data.communication) found.devices = "Devices";
  return found;
}

class Selection {
  constructor(program) {
    this.program = program;
    this.listeners = [];
    this.state = { ...this.standard(), ...this.read() };
    addEventListener("hashchange", () => {
      this.state = { ...this.standard(), ...this.read() };
      this.tell();
    });
  }

  standard() {
    const { last, data } = this.program;
    const shown = data.function ?? this.program.functions(last)[0] ?? "";
    const changed = data.stages.map((stage) => Object.keys(stage.changed).length > 0).lastIndexOf(true);
    return { view: "program", stage: Math.max(0, changed), function: shown, plan: data.memory?.chosen ?? 0 };
  }

  /** row: a binding by its name; line: a line of a source, as `0:12`; moment: of the memory. */
  read() {
    const found = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
    for (const name of ["stage", "from", "plan", "moment"]) {
      if (name in found) found[name] = Number(found[name]);
    }
    const valid = Number.isInteger(found.stage ?? 0) && (found.stage ?? 0) <= this.program.last;
    return valid && (found.view ?? "program") in viewsOf(this.program.data) ? found : {};
  }

  change(changes) {
    this.state = { ...this.state, ...changes };
    for (const [name, value] of Object.entries(this.state)) {
      if (value === undefined || value === null) delete this.state[name];
    }
    try {
      history.replaceState(null, "", `#${new URLSearchParams(this.state)}`);
    } catch {
      // A page inside of a notebook has no address of its own.
    }
    this.tell();
  }

  listen(listener) {
    this.listeners.push(listener);
  }

  tell() {
    for (const listener of this.listeners) listener(this.state);
  }

  get listing() {
    return this.program.listing(this.state.stage, this.state.function);
  }

  /** The row that is selected in the listing, -1 for none. */
  get row() {
    const { row } = this.state;
    return row === undefined ? -1 : (this.listing.byName.get(row) ?? -1);
  }

  /** The rows, and the lines of sources, that belong to a row or to a line of a source. */
  lit(row, line) {
    const { listing, program } = this;
    if (row >= 0) {
      const rows = listing.related(row);
      const lines = rows.map((one) => program.lineKey(listing.lines[one].place));
      return { rows, lines: [...new Set(lines.filter((key) => key !== null))] };
    }
    if (line) return { rows: listing.byPlace.get(line) ?? [], lines: [line] };
    return { rows: [], lines: [] };
  }
}
