// Making elements. Text goes in as text only, so nothing that a program says is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes, listeners (`onclick`) and children, which are nodes or texts. */
function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null));
}

const LONGEST = 400; // letters of a line in a list; the inspector shows all of them

function cut(text, most = LONGEST) {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

/** A number with three digits at most, and the unit that makes it so. */
function scaled(number, base, units) {
  let at = 0;
  let rest = Math.abs(number);
  while (rest >= base && at < units.length - 1) {
    rest /= base;
    at++;
  }
  const shown = at === 0 || rest >= 100 ? Math.round(rest) : rest.toFixed(rest < 10 ? 2 : 1);
  return `${number < 0 ? "−" : ""}${shown} ${units[at]}`;
}

const inBytes = (count) => scaled(count, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const inFlops = (count) => scaled(count, 1000, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"]);
const inTime = (ms) => {
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  return ms < 0.1 ? `${(1000 * ms).toFixed(ms < 0.01 ? 1 : 0)} µs` : `${ms.toFixed(ms < 10 ? 2 : 0)} ms`;
};
const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
const share = (part, whole) => `${(whole ? (100 * part) / whole : 0).toFixed(1)} %`;
/** A number with three digits, on an exponent where it is far from 1. */
function shortNumber(number) {
  if (number === null) return "none";
  const size = Math.abs(number);
  const isFar = size !== 0 && (size < 1e-3 || size >= 1e5);
  const shown = isFar ? number.toExponential(2).replace(/\.?0*e/, "e") : Number(number.toPrecision(3)).toString();
  return shown.replace("e+", "e").replaceAll("-", "−");
}

/** A choice of which one is pressed: `options` are pairs of a value and its label. */
function choice(label, options, value, chosen) {
  const buttons = options.map(([key, text]) =>
    h("button", { type: "button", "aria-pressed": String(key === value), onclick: () => chosen(key) }, text),
  );
  return h("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

function picker(label, options, value, chosen) {
  const select = h(
    "select",
    { "aria-label": label, onchange: (event) => chosen(event.target.value) },
    options.map(([key, text]) => h("option", { value: key, selected: String(key) === String(value) }, text)),
  );
  return h("label", { class: "picker" }, h("span", {}, label), select);
}

/** A bar whose parts are shares of a whole; `kinds` name the look of each. */
function bar(parts, whole) {
  return h(
    "span",
    { class: "bar", "aria-hidden": "true" },
    parts.map(([kind, size]) =>
      h("span", { class: `part ${kind}`, style: `width:${(whole ? (100 * size) / whole : 0).toFixed(3)}%` }),
    ),
  );
}
