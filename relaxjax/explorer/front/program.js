// The document as the views ask for it: programs at each stage, and what belongs together in them.

async function unpacked() {
  const packed = document.getElementById("document").textContent;
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

const ASSIGNMENT = /^(\s*)([^\s:=()]+): (.*?) = (.*)$/s;
const PLAIN_ASSIGNMENT = /^(\s*)([^\s:=()]+) = (.*)$/s;
const DTYPES = { float: "f", bfloat: "bf", int: "i", uint: "u", complex: "c" };

/** `R.Tensor((64, 10), dtype="float32")` as people write it on paper: `f32[64,10]`. */
function shortType(text) {
  return text
    .replace(/R\.Tensor\(\(([^()]*)\), dtype="([a-z]+?)(\d*(?:_\w+)?)"\)/g, (_, dims, kind, bits) => {
      const axes = dims.split(",").map((axis) => axis.trim()).filter(Boolean);
      return `${DTYPES[kind] ?? kind}${bits}${axes.length ? `[${axes.join(",")}]` : ""}`;
    })
    .replace(/R\.(Tuple|Callable|Prim|Shape)/g, "$1");
}

/** A line of the document's table, taken apart for the eye. */
class Line {
  constructor([text, name = null, place = null, of = null, flops = null, bytes = null], number) {
    Object.assign(this, { text, name, place, of, flops, bytes, number });
  }

  get parts() {
    if (this.known) return this.known;
    const typed = this.name !== null && ASSIGNMENT.exec(this.text);
    const plain = !typed && this.name !== null && PLAIN_ASSIGNMENT.exec(this.text);
    if (typed) {
      const [, , name, type, value] = typed;
      this.known = { indent: this.indent, name, type, value };
    } else if (plain) {
      const [, , name, value] = plain;
      this.known = { indent: this.indent, name, type: "", value };
    } else {
      this.known = { indent: this.indent, name: "", type: "", value: this.text.trimStart() };
    }
    return this.known;
  }

  /** What could be a name in the value of a binding. */
  get words() {
    return new Set(this.parts.value.match(/[^\s,()[\]{}=:"]+/g) ?? []);
  }

  /** Half of the indentation within a function: a column is narrow. */
  get indent() {
    const depth = /^ */.exec(this.text)[0].length;
    return " ".repeat(Math.max(0, depth - 4) / 2);
  }

  /** The operator that a binding calls, without its arguments. */
  get operator() {
    const found = /^([\w.]+)\(/.exec(this.parts.value);
    return found ? found[1] : "value";
  }
}

/** A function at one stage: its lines, those of the backward part, and who belongs to whom. */
class Listing {
  constructor(program, numbers) {
    this.program = program;
    this.lines = numbers.map((number) => program.line(number));
    const first = this.lines.findIndex((line) => line.of !== null);
    this.split = first < 0 ? this.lines.length : first;
    this.forward = new Map();
    this.backward = new Map();
    this.byPlace = new Map();
    this.byName = new Map();
    this.lines.forEach((line, row) => {
      if (line.name === null) return;
      if (!this.byName.has(line.name)) this.byName.set(line.name, row);
      if (line.of === null && !this.forward.has(line.name)) this.forward.set(line.name, row);
      if (line.of !== null) add(this.backward, line.of, row);
      const key = program.lineKey(line.place);
      if (key !== null) add(this.byPlace, key, row);
    });
  }

  /** The rows that belong to a row: what it is the adjoint of, and the adjoints of that. */
  related(row) {
    const line = this.lines[row];
    if (!line || line.name === null) return [row];
    const name = line.of ?? this.differentiated(line);
    const forward = this.forward.has(name) ? [this.forward.get(name)] : this.parts(name, line.place);
    return [...new Set([row, ...forward, ...(this.backward.get(name) ?? [])])];
  }

  /** The name by which a forward binding has adjoints: LegalizeOps adds operators to that. */
  differentiated(line) {
    for (let name = line.name; name; name = name.slice(0, Math.max(0, name.lastIndexOf("_")))) {
      const rows = this.backward.get(name);
      if (rows && (name === line.name || this.lines[rows[0]].place === line.place)) return name;
    }
    return line.name;
  }

  /** The bindings that a forward value was lowered to, where none has its name. */
  parts(name, place) {
    const rows = this.byPlace.get(this.program.lineKey(place)) ?? [];
    return rows.filter((row) => this.lines[row].of === null && this.lines[row].name.startsWith(`${name}_`));
  }

  /** The rows whose values a row reads. */
  reads(row) {
    const found = [...this.lines[row].words].map((word) => this.byName.get(word));
    return found.filter((other) => other !== undefined && other !== row);
  }

  /** The rows that read the value of a row. */
  readers(row) {
    const { name } = this.lines[row];
    const found = [];
    this.lines.forEach((line, other) => {
      if (line.name !== null && other !== row && line.text.includes(name) && line.words.has(name)) found.push(other);
    });
    return found;
  }

  get bindings() {
    return this.lines.filter((line) => line.name !== null);
  }
}

function add(map, key, value) {
  const found = map.get(key);
  if (found) found.push(value);
  else map.set(key, [value]);
}

class Program {
  constructor(data) {
    this.data = data;
    this.lines = [];
    this.stages = [];
    this.listings = new Map();
    let before = {};
    for (const stage of data.stages) {
      const after = { ...before };
      for (const name of stage.gone) delete after[name];
      for (const [name, hunks] of Object.entries(stage.changed)) {
        after[name] = replaced(after[name] ?? [], hunks);
      }
      this.stages.push(after);
      before = after;
    }
  }

  get last() {
    return this.stages.length - 1;
  }

  /** The program that was run: the last one of the function that is looked at. */
  get ran() {
    return this.listing(this.last, this.data.function);
  }

  /** The kernels that compute a binding, by its name. */
  kernelsOf(name) {
    if (!this.kernels) {
      this.kernels = new Map();
      for (const kernel of this.data.profile?.kernels ?? []) {
        for (const binding of kernel.bindings) add(this.kernels, binding, kernel);
      }
    }
    return this.kernels.get(name) ?? [];
  }

  /** The numbers of a binding, and those of its gradient. */
  numbersOf(name) {
    if (!this.numbers) {
      const values = this.data.numbers?.values ?? [];
      this.numbers = new Map(values.map((value) => [value.var, value]));
      this.gradients = new Map(values.filter((value) => value.gradient_of).map((value) => [value.gradient_of, value]));
    }
    return { value: this.numbers.get(name), gradient: this.gradients.get(name) };
  }

  line(number) {
    return (this.lines[number] ??= new Line(this.data.lines[number], number));
  }

  /** The functions of a stage, the one that is looked at first. */
  functions(stage) {
    const names = this.data.stages[stage].functions;
    const wanted = this.data.function;
    return names.includes(wanted) ? [wanted, ...names.filter((name) => name !== wanted)] : names;
  }

  listing(stage, name) {
    const numbers = this.stages[stage][name] ?? [];
    if (!this.listings.has(numbers)) this.listings.set(numbers, new Listing(this, numbers));
    return this.listings.get(numbers);
  }

  place(number) {
    if (number === null) return null;
    const [source, line, column] = this.data.places[number];
    return { source, line, column };
  }

  lineKey(place) {
    if (place === null) return null;
    const [source, line] = this.data.places[place];
    return `${source}:${line}`;
  }

  /** A line of a source in a few letters; the file is named where there are several. */
  shortPlace(key) {
    const [source, line] = key.split(":").map(Number);
    if (this.data.sources.length < 2) return `line ${line}`;
    return `${cut(this.sourceName(source).split("/").pop(), 12)}:${line}`;
  }

  sourceText(source, line) {
    return this.data.sources[source]?.lines[line - 1] ?? "";
  }

  sourceName(source) {
    return this.data.sources[source]?.name ?? "";
  }
}

function replaced(before, hunks) {
  const after = [];
  let done = 0;
  for (const { at, removed, ranges } of hunks) {
    while (done < at) after.push(before[done++]);
    for (const [first, count] of ranges) for (let i = 0; i < count; i++) after.push(first + i);
    done = at + removed;
  }
  while (done < before.length) after.push(before[done++]);
  return after;
}

/** What changed between two lists of numbers: rows that stay, go and come, in order. */
function difference(before, after) {
  const rows = [];
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  const most = Math.min(before.length, after.length) - start;
  while (end < most && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  for (let i = 0; i < start; i++) rows.push({ kind: "same", number: before[i] });
  const old = before.slice(start, before.length - end);
  const fresh = after.slice(start, after.length - end);
  let a = 0;
  let b = 0;
  for (const [i, j] of [...inOrder(old, fresh), [old.length, fresh.length]]) {
    while (a < i) rows.push({ kind: "gone", number: old[a++] });
    while (b < j) rows.push({ kind: "new", number: fresh[b++] });
    if (i < old.length) rows.push({ kind: "same", number: old[i] });
    a = i + 1;
    b = j + 1;
  }
  for (let i = before.length - end; i < before.length; i++) {
    rows.push({ kind: "same", number: before[i] });
  }
  return rows;
}

/** The longest series of places of numbers that stand once in both lists, rising in both. */
function inOrder(old, fresh) {
  const once = (list) => {
    const places = new Map();
    list.forEach((number, at) => places.set(number, places.has(number) ? -1 : at));
    return places;
  };
  const [inOld, inFresh] = [once(old), once(fresh)];
  const pairs = [];
  for (const [number, at] of inOld) {
    const other = inFresh.get(number) ?? -1;
    if (at >= 0 && other >= 0) pairs.push([at, other]);
  }
  const tails = [];
  const before = new Array(pairs.length).fill(-1);
  pairs.forEach(([, other], at) => {
    let [low, high] = [0, tails.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[tails[middle]][1] < other) low = middle + 1;
      else high = middle;
    }
    before[at] = low ? tails[low - 1] : -1;
    tails[low] = at;
  });
  const found = [];
  for (let at = tails.length ? tails[tails.length - 1] : -1; at >= 0; at = before[at]) {
    found.push(pairs[at]);
  }
  return found.reverse();
}
