// Elements, numbers as text, and requests. Text of an index is only ever set as textContent, never parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null)); // strings become text nodes
  return made;
}

export const byId = (id) => document.getElementById(id);
export const element = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
export const drawing = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

// A short remark after a value; the space is for those who hear it.
export const hint = (text) => element("span", { class: "hint" }, ` ${text}`);

export function count(value) {
  return value.toLocaleString("en");
}

export function decimal(value, digits = 4) {
  return value === null ? "–" : value.toLocaleString("en", { maximumSignificantDigits: digits });
}

export function plural(value, one, many) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function duration(microseconds) {
  if (microseconds === null) return "–";
  if (microseconds >= 1e6) return `${decimal(microseconds / 1e6, 3)} s`;
  return microseconds >= 1000 ? `${decimal(microseconds / 1000, 3)} ms` : `${decimal(microseconds, 3)} µs`;
}

// The answer to a request as JSON; an Error has the message of the server.
export async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "omit", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is pcpq explore still running?");
  }
  let found;
  try {
    found = await answer.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error(`The server answered with an error (${answer.status}).`);
  }
  if (!answer.ok) throw new Error(found.error);
  return found;
}

// Call `draw` with the width of a box, now and whenever it changes.
export function redrawn(box, draw) {
  let last = 0;
  new ResizeObserver(() => {
    if (box.clientWidth !== last) draw((last = box.clientWidth));
  }).observe(box);
}
