// The map: a sample of the vectors in two dimensions, with the query and its results.
import { count, drawing, element, redrawn } from "./elements.js";

const NEAR = 24; // pixels from which a pointer finds a point
const EDGE = 18; // pixels between the points and the edge
const MOST_ZOOM = 64;
const DRAGGED = 6; // pixels after which a press is no click
const LABELS = 12; // results that have their id beside them
const LABEL = { height: 15, letter: 7, most: 18 };

export class VectorMap {
  // `actions.chosen(id)` searches by an item, `actions.said(text)` tells it to a screen reader.
  constructor(box, tip, actions) {
    Object.assign(this, { box, tip, actions, points: null, colours: null, places: null });
    this.current = -1; // the point that a pointer or the keyboard is at
    this.pointed = -1; // the result that is marked from the table
    this.whole();
    this.svg = drawing("svg", { "aria-hidden": "true" });
    this.dots = drawing("g", {});
    this.marks = drawing("g", {});
    this.svg.append(this.dots, this.marks);
    box.append(this.svg);
    redrawn(box, () => this.draw());
    box.addEventListener("pointermove", (event) => this.moved(event));
    box.addEventListener("pointerleave", () => this.select(-1));
    box.addEventListener("pointerdown", (event) => (this.press = { x: event.clientX, y: event.clientY, dragged: false }));
    box.addEventListener("pointerup", (event) => this.released(event));
    box.addEventListener("pointercancel", () => (this.press = null));
    box.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
    box.addEventListener("keydown", (event) => this.pressed(event));
    box.addEventListener("blur", () => this.select(-1));
  }

  setPoints(points) {
    this.points = points;
    this.select(-1);
    this.draw();
  }

  setColours(colours) {
    this.colours = colours;
    this.draw();
  }

  // The places of a query and its results, [x, y] or null, and their ids.
  setFound(places) {
    this.places = places;
    this.pointed = -1;
    this.drawMarks();
  }

  point(rank) {
    this.pointed = rank;
    this.drawMarks();
  }

  // Places and pixels

  whole() {
    this.view = { x: 0.5, y: 0.5, zoom: 1 };
  }

  get width() {
    return this.box.clientWidth;
  }

  get height() {
    return this.box.clientHeight;
  }

  get scale() {
    return (Math.min(this.width, this.height) - 2 * EDGE) * this.view.zoom;
  }

  toPixel(x, y) {
    return [this.width / 2 + (x - this.view.x) * this.scale, this.height / 2 + (y - this.view.y) * this.scale];
  }

  pixelOf(i) {
    return this.toPixel(this.points.x[i], this.points.y[i]);
  }

  isInside([left, top], edge = 0) {
    return left >= edge && top >= edge && left <= this.width - edge && top <= this.height - edge;
  }

  // Change the zoom around a place in pixels; the middle unless told.
  zoomBy(factor, left = this.width / 2, top = this.height / 2) {
    const zoom = Math.min(MOST_ZOOM, Math.max(1, this.view.zoom * factor));
    const x = this.view.x + (left - this.width / 2) / this.scale;
    const y = this.view.y + (top - this.height / 2) / this.scale;
    const kept = this.view.zoom / zoom;
    this.view = zoom === 1 ? { x: 0.5, y: 0.5, zoom } : { x: x + (this.view.x - x) * kept, y: y + (this.view.y - y) * kept, zoom };
    this.draw();
  }

  fit() {
    this.whole();
    this.draw();
  }

  // Show the query and its results as large as they fit.
  fitFound() {
    const found = this.places ? [this.places.query, ...this.places.results].filter((place) => place !== null) : [];
    if (!found.length) return;
    const [xs, ys] = [0, 1].map((axis) => found.map((place) => place[axis]));
    const size = Math.max(Math.max(...xs) - Math.min(...xs), Math.max(...ys) - Math.min(...ys), 1e-6);
    const zoom = Math.min(MOST_ZOOM, Math.max(1, 0.7 / size));
    this.view = { x: (Math.max(...xs) + Math.min(...xs)) / 2, y: (Math.max(...ys) + Math.min(...ys)) / 2, zoom };
    this.draw();
  }

  // Drawing

  draw() {
    if (!this.width || !this.points) return;
    this.svg.setAttribute("width", this.width);
    this.svg.setAttribute("height", this.height);
    this.box.classList.toggle("zoomed", this.view.zoom > 1);
    const paths = new Map();
    for (let i = 0; i < this.points.points; i++) {
      const pixel = this.pixelOf(i);
      if (!this.isInside(pixel, -4)) continue;
      const group = this.colours ? this.colours.groups[i] : 0;
      if (!paths.has(group)) paths.set(group, []);
      paths.get(group).push(`M${pixel[0].toFixed(1)} ${pixel[1].toFixed(1)}h0`);
    }
    const size = this.points.points > 1500 && this.view.zoom < 3 ? 4 : 6;
    const groups = [...paths.keys()].sort((a, b) => a - b); // those without a colour lie below
    this.dots.replaceChildren(
      ...groups.map((group) =>
        drawing("path", { class: `dots ${this.colourOf(group)}`, d: paths.get(group).join(""), "stroke-width": size }),
      ),
    );
    this.drawMarks();
  }

  colourOf(group) {
    if (group < 0) return "rest";
    return this.colours && this.colours.kind === "steps" ? `step-${group}` : `colour-${group}`;
  }

  drawMarks() {
    if (!this.width || !this.points) return;
    const marks = [];
    const { query, results = [], ids = [], name = "" } = this.places || { query: null };
    results.forEach((place, rank) => {
      if (place === null) return;
      const [cx, cy] = this.toPixel(...place);
      const marked = rank === this.pointed;
      marks.push(drawing("circle", { class: marked ? "result marked" : "result", cx, cy, r: marked ? 8 : 5 }));
    });
    if (query) {
      const [cx, cy] = this.toPixel(...query);
      marks.push(drawing("circle", { class: "query", cx, cy, r: 8 }), drawing("circle", { class: "query-dot", cx, cy, r: 3 }));
    }
    marks.push(...this.labels(query ? [[query, name], ...results.map((place, i) => [place, ids[i]])] : []));
    if (this.current >= 0) {
      const [cx, cy] = this.pixelOf(this.current);
      marks.push(drawing("circle", { class: "current", cx, cy, r: 9 }));
    }
    this.marks.replaceChildren(...marks);
  }

  // Ids beside their places, the best first; one that would cover another is left out.
  labels(named) {
    const taken = [];
    const made = [];
    const first = this.pointed >= 0 ? [named[this.pointed + 1]] : [];
    for (const [place, id] of [...first, ...named].slice(0, LABELS + 1)) {
      if (!place || !id) continue;
      const text = id.length > LABEL.most ? `${id.slice(0, LABEL.most - 1)}…` : id;
      const [left, top] = this.toPixel(...place);
      const width = text.length * LABEL.letter;
      const right = left + 11 + width < this.width;
      const box = { left: right ? left + 11 : left - 11 - width, top: top - LABEL.height / 2, width };
      const clear = (other) =>
        box.left > other.left + other.width || other.left > box.left + width || Math.abs(box.top - other.top) > LABEL.height;
      if (!this.isInside([left, top]) || !taken.every(clear)) continue;
      taken.push(box);
      const anchor = right ? "start" : "end";
      made.push(drawing("text", { class: "label", x: right ? left + 11 : left - 11, y: top + 4, "text-anchor": anchor }, text));
    }
    return made;
  }

  // Points under a pointer or the keyboard

  nearest(left, top) {
    let found = -1;
    let least = NEAR ** 2;
    for (let i = 0; i < this.points.points; i++) {
      const [x, y] = this.pixelOf(i);
      const away = (x - left) ** 2 + (y - top) ** 2;
      if (away < least) [found, least] = [i, away];
    }
    return found;
  }

  // Mark a point and show its id; -1: none.
  select(i, spoken = false) {
    if (this.current === i) return;
    this.current = i;
    this.tip.hidden = i < 0;
    if (this.points) this.drawMarks();
    if (i < 0) return;
    const id = this.points.ids[i] === null ? "(a very long id)" : this.points.ids[i];
    const list = `list ${count(this.points.lists[i])}`;
    this.tip.replaceChildren(element("strong", {}, id), element("span", {}, list));
    const frame = this.box.getBoundingClientRect();
    const [left, top] = this.pixelOf(i);
    const most = document.documentElement.clientWidth - this.tip.offsetWidth - 8;
    const x = Math.min(Math.max(frame.left + left - this.tip.offsetWidth / 2, 8), most);
    const above = frame.top + top - this.tip.offsetHeight - 14;
    this.tip.style.left = `${x + window.scrollX}px`;
    this.tip.style.top = `${(above > 4 ? above : frame.top + top + 14) + window.scrollY}px`;
    if (spoken) this.actions.said(`${id}, ${list}`);
  }

  choose(i) {
    if (i >= 0 && this.points.ids[i] !== null) this.actions.chosen(this.points.ids[i]);
  }

  place(event) {
    const frame = this.box.getBoundingClientRect();
    return [event.clientX - frame.left - this.box.clientLeft, event.clientY - frame.top - this.box.clientTop];
  }

  moved(event) {
    if (!this.points) return;
    const press = this.press;
    if (press && (event.buttons & 1) === 1) {
      const [right, down] = [event.clientX - (press.lastX ?? press.x), event.clientY - (press.lastY ?? press.y)];
      if (press.dragged || Math.hypot(event.clientX - press.x, event.clientY - press.y) > DRAGGED) {
        Object.assign(press, { dragged: true, lastX: event.clientX, lastY: event.clientY });
        if (this.view.zoom > 1) {
          this.select(-1);
          this.view.x -= right / this.scale;
          this.view.y -= down / this.scale;
          this.draw();
          return;
        }
      }
    }
    this.select(this.nearest(...this.place(event)));
  }

  released(event) {
    const press = this.press;
    this.press = null;
    if (this.points && press && !press.dragged && event.button === 0) this.choose(this.nearest(...this.place(event)));
  }

  wheeled(event) {
    if (!this.points || !event.ctrlKey) return; // without Ctrl, which pinching sets, the page scrolls
    event.preventDefault();
    this.zoomBy(Math.exp(-event.deltaY / 200), ...this.place(event));
  }

  // The nearest point to the right, left, above or below, within 45 degrees.
  neighbour(right, down) {
    const [left, top] = this.current < 0 ? [this.width / 2, this.height / 2] : this.pixelOf(this.current);
    let found = this.current;
    let least = Infinity;
    for (let i = 0; i < this.points.points; i++) {
      const [x, y] = this.pixelOf(i);
      const [along, across] = [(x - left) * right + (y - top) * down, (x - left) * down + (y - top) * right];
      const away = (x - left) ** 2 + (y - top) ** 2;
      const fits = this.current < 0 || (along > 0 && Math.abs(across) <= along);
      if (fits && i !== this.current && away < least) [found, least] = [i, away];
    }
    return found;
  }

  pressed(event) {
    if (!this.points || !this.points.points || event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
    const at = this.current < 0 ? [] : this.pixelOf(this.current);
    if (steps[event.key]) this.goTo(this.neighbour(...steps[event.key]));
    else if (event.key === "Enter" || event.key === " ") this.choose(this.current);
    else if (event.key === "Escape") this.select(-1);
    else if (event.key === "+" || event.key === "=") this.zoomBy(1.6, ...at);
    else if (event.key === "-") this.zoomBy(1 / 1.6, ...at);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
  }

  goTo(i) {
    if (i < 0) return;
    if (!this.isInside(this.pixelOf(i), 10)) {
      this.view = { ...this.view, x: this.points.x[i], y: this.points.y[i] };
      this.draw();
    }
    this.select(i, true);
  }
}
