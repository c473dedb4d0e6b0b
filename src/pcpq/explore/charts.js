// Charts: recall by vectors scanned, sizes of lists, bytes by part, and the time of the stages of a search.
import { count, decimal, drawing, duration, element } from "./elements.js";

const HEIGHT = 210;
const MARGIN = { left: 44, right: 14, top: 12, bottom: 34 };

function ticksBetween(low, high, most) {
  const rough = (high - low) / most || 1;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * [1, 2, 5, 10].find((factor) => factor * size >= rough);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 && found.length < 20; i++) found.push(i * step || 0); // not -0
  return found;
}

function powersBetween(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++)
    found.push(...[1, 2, 5].map((factor) => factor * 10 ** power));
  const inside = found.filter((value) => value >= low && value <= high);
  return inside.length > 6 ? inside.filter((value) => /^1/.test(String(value))) : inside;
}

function short(value) {
  return value.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 });
}

// Expected recall by work; `target` is the stop of the slider that is marked.
export function drawCurve(box, points, target, width) {
  if (!points.length || !width) return box.replaceChildren();
  const rows = points.map((point) => Math.max(point.work, 1));
  const low = Math.min(...rows) / 1.15;
  const high = Math.max(...rows) * 1.15;
  const bottom = HEIGHT - MARGIN.bottom;
  const least = Math.max(0, Math.floor(Math.min(...points.map((point) => point.recall)) * 20 - 0.5) / 20);
  const x = (value) =>
    MARGIN.left + (Math.log(Math.max(value, 1) / low) / Math.log(high / low)) * (width - MARGIN.left - MARGIN.right);
  const y = (value) => bottom - ((value - least) / (1.01 - least)) * (bottom - MARGIN.top);
  const svg = drawing("svg", { width, height: HEIGHT, role: "img" });
  const marked = points.find((point) => point.target === target);
  const said = marked ? `; chosen: about ${decimal(marked.recall)} with ${count(Math.round(marked.rows))} vectors scanned` : "";
  svg.setAttribute("aria-label", `Expected recall by estimated work${said}`);
  for (const value of ticksBetween(least, 1, 4)) {
    svg.append(drawing("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }));
    svg.append(drawing("text", { x: MARGIN.left - 8, y: y(value) + 4, "text-anchor": "end" }, decimal(value, 2)));
  }
  for (const value of powersBetween(low, high))
    svg.append(drawing("text", { x: x(value), y: bottom + 16, "text-anchor": "middle" }, short(value)));
  svg.append(
    drawing("text", { class: "axis", x: width - MARGIN.right, y: HEIGHT - 3, "text-anchor": "end" }, "estimated work (log)"),
  );
  const path = points.map((point, i) => `${i ? "L" : "M"}${x(point.work).toFixed(1)} ${y(point.recall).toFixed(1)}`);
  svg.append(drawing("path", { class: "line", d: path.join("") }));
  for (const point of points) svg.append(drawing("circle", { class: "dot", cx: x(point.work), cy: y(point.recall), r: 2.5 }));
  if (marked) {
    const [left, top] = [x(marked.work), y(marked.recall)];
    svg.append(drawing("path", { class: "guide", d: `M${MARGIN.left} ${top}H${left}V${bottom}` }));
    svg.append(drawing("circle", { class: "chosen", cx: left, cy: top, r: 6 }));
  }
  box.replaceChildren(svg);
}

// How many lists have which size.
export function drawSizes(box, lists, width) {
  if (!width) return;
  const bottom = HEIGHT - MARGIN.bottom;
  const most = Math.max(...lists.bars, 1);
  const step = (width - MARGIN.left - MARGIN.right) / lists.bars.length;
  const y = (value) => bottom - (value / most) * (bottom - MARGIN.top);
  const svg = drawing("svg", { width, height: HEIGHT, role: "img", "aria-label": "Number of lists by their size" });
  for (const value of ticksBetween(0, most, 4).filter(Number.isInteger)) {
    svg.append(drawing("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }));
    svg.append(drawing("text", { x: MARGIN.left - 8, y: y(value) + 4, "text-anchor": "end" }, short(value)));
  }
  const every = Math.ceil(46 / step);
  lists.bars.forEach((bar, i) => {
    const left = MARGIN.left + i * step;
    const from = lists.low + i * lists.width;
    const to = from + lists.width - 1;
    const range = from === to ? count(from) : `${count(from)} to ${count(to)}`;
    const rect = { class: "bar", x: left + 1, width: Math.max(step - 2, 1), y: y(bar), height: Math.max(bottom - y(bar), 0), rx: 2 };
    svg.append(drawing("rect", rect, drawing("title", {}, `${count(bar)} lists of ${range} vectors`)));
    if (i % every === 0)
      svg.append(drawing("text", { x: left + step / 2, y: bottom + 16, "text-anchor": "middle" }, short(from)));
  });
  svg.append(
    drawing("text", { class: "axis", x: width - MARGIN.right, y: HEIGHT - 3, "text-anchor": "end" }, "vectors in a list"),
  );
  box.replaceChildren(svg);
}

// Parts as bars, one below the other; parts of no bytes are left out.
export function drawBytes(box, parts) {
  const shown = Object.entries(parts).filter(([, bytes]) => bytes > 0);
  const most = Math.max(...shown.map(([, bytes]) => bytes), 1e-9);
  const rows = shown.map(([name, bytes]) => {
    const bar = element("span", { class: "length" });
    bar.style.width = `${Math.max((100 * bytes) / most, 0.5)}%`;
    return element("div", {}, element("dt", {}, name), element("dd", {}, element("span", { class: "track" }, bar), decimal(bytes, 4)));
  });
  box.replaceChildren(element("dl", { class: "bars" }, ...rows));
}

// The stages of a search as parts of one bar, with a legend.
export function drawStages(box, microseconds) {
  const stages = Object.entries(microseconds);
  const total = stages.reduce((sum, [, value]) => sum + value, 0);
  if (!(total > 0)) return box.replaceChildren();
  const parts = stages.map(([, value], i) => {
    const part = element("span", { class: `fill-${i}` });
    part.style.flexGrow = value / total;
    return part;
  });
  const names = stages.map(([name, value], i) =>
    element("li", {}, element("span", { class: `swatch fill-${i}` }), `${name} ${duration(value)}`),
  );
  box.replaceChildren(
    element("p", { class: "note stages-title" }, `In native code, ${duration(total)}:`),
    element("div", { class: "stack", "aria-hidden": "true" }, ...parts),
    element("ul", { class: "legend", "aria-label": "Time of the stages of one search" }, ...names),
  );
}
