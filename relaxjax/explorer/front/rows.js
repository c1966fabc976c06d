// A list of any length, of which only the rows in sight are elements.

const ROW = 22; // pixels; the style has the same
const BEYOND = 12; // rows that are drawn above and below those in sight

class Rows {
  /**
   * label: what a screen reader calls the list.
   * draw(item, row): the children of a row's element; it may return {children, class}.
   * chosen(row): called where a row is clicked, or Enter is pressed on it, or arrows lead to it.
   */
  constructor({ label, draw, chosen, hovered = null, className = "" }) {
    Object.assign(this, { draw, chosen, hovered });
    this.items = [];
    this.active = -1;
    this.lit = new Set();
    this.elements = new Map(); // by row, those that are drawn
    this.over = -1;
    this.id = `rows${Rows.made++}`;
    this.inside = h("div", { class: "inside", role: "presentation" });
    this.element = h(
      "div",
      {
        class: `rows ${className}`,
        role: "listbox",
        tabindex: "0",
        "aria-label": label,
        onscroll: () => this.scheduled(),
        onkeydown: (event) => this.key(event),
        onclick: (event) => this.pointed(event, (row) => this.choose(row)),
        onmouseover: (event) => this.pointed(event, (row) => this.hover(row)),
        onmouseleave: () => this.hover(-1),
      },
      this.inside,
    );
    new ResizeObserver(() => this.scheduled()).observe(this.element);
    addEventListener("beforeprint", () => this.render(true));
    addEventListener("afterprint", () => this.render());
  }

  show(items, active = -1) {
    this.items = items;
    this.active = active;
    this.elements = new Map();
    this.inside.replaceChildren();
    this.inside.style.height = `${items.length * ROW}px`;
    this.render();
  }

  /** Mark rows as belonging to what is selected, and one of them as the selected one. */
  light(rows, active = -1, reveal = false) {
    this.lit = new Set(rows);
    this.active = active;
    const first = active >= 0 ? active : rows.length ? Math.min(...rows) : -1;
    if (reveal && first >= 0) this.reveal(first);
    this.render();
  }

  reveal(row) {
    const { scrollTop, clientHeight } = this.element;
    const top = row * ROW;
    if (top < scrollTop + ROW || top > scrollTop + clientHeight - 2 * ROW) {
      this.element.scrollTop = Math.max(0, top - clientHeight / 3);
    }
  }

  scheduled() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.render();
    });
  }

  /** Draw the rows in sight; an element stays the one it is, so that a click on it is one. */
  render(whole = false) {
    const { scrollTop, clientHeight } = this.element;
    const first = whole ? 0 : Math.max(0, Math.floor(scrollTop / ROW) - BEYOND);
    const past = whole ? this.items.length : Math.ceil((scrollTop + clientHeight) / ROW) + BEYOND;
    const drawn = new Map();
    for (let row = first; row < Math.min(past, this.items.length); row++) {
      drawn.set(row, this.elements.get(row) ?? this.row(row));
    }
    for (const [row, element] of this.elements) if (!drawn.has(row)) element.remove();
    let next = this.inside.firstChild;
    for (const [row, element] of drawn) {
      this.mark(element, row);
      if (element === next) next = next.nextSibling;
      else this.inside.insertBefore(element, next);
    }
    this.elements = drawn;
    if (drawn.has(this.active)) this.element.setAttribute("aria-activedescendant", this.rowId(this.active));
    else this.element.removeAttribute("aria-activedescendant");
  }

  mark(element, row) {
    const isLit = this.lit.has(row);
    element.classList.toggle("lit", isLit);
    element.classList.toggle("active", row === this.active);
    element.setAttribute("aria-selected", String(isLit || row === this.active));
  }

  row(row) {
    const { children, className = "" } = this.draw(this.items[row], row);
    const element = h(
      "div",
      {
        id: this.rowId(row),
        class: `row ${className}`.trim(),
        role: "option",
        "data-row": row,
        "aria-posinset": row + 1,
        "aria-setsize": this.items.length,
        style: `top:${row * ROW}px`,
      },
      children,
    );
    if (!element.textContent.trim()) element.setAttribute("aria-label", "an empty line");
    return element;
  }

  rowId(row) {
    return `${this.id}-${row}`;
  }

  pointed(event, act) {
    const element = event.target.closest("[data-row]");
    if (element) act(Number(element.dataset.row));
  }

  hover(row) {
    if (row === this.over) return;
    this.over = row;
    if (this.hovered) this.hovered(row);
  }

  choose(row) {
    this.active = row;
    this.chosen(row);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 1);
    const start = this.active < 0 ? Math.floor(this.element.scrollTop / ROW) - 1 : this.active;
    const last = this.items.length - 1;
    const to = {
      ArrowDown: start + 1,
      ArrowUp: start - 1,
      PageDown: start + page,
      PageUp: start - page,
      Home: 0,
      End: last,
      Enter: start,
    }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    const row = Math.min(last, Math.max(0, to));
    this.reveal(row);
    this.choose(row);
  }
}

Rows.made = 0;
