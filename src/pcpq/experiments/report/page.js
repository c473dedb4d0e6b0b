"use strict";
(() => {
  const { spread, written } = axes;
  // Text from results is only ever set as textContent or as an attribute, never parsed as HTML.
  const panels = JSON.parse(document.getElementById("data").textContent);
  const tip = document.getElementById("tip");
  const groups = new Map();
  const COLOURS = 7;
  const DASHES = ["", "7 3", "2 3", "9 3 2 3"];
  const MARGIN = { left: 58, right: 16, top: 26, bottom: 42 };
  const MANY = 12; // points of a line from which on markers are small
  const NEAR = 30; // pixels from which a pointer finds a marker

  const SHAPES = [
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0Z", // circle
    "M-4 -4H4V4H-4Z", // square
    "M0 -5.2L5 4H-5Z", // triangle
    "M0 -5.8L5.2 0L0 5.8L-5.2 0Z", // diamond
    "M0 5.2L5 -4H-5Z", // triangle upside down
    "M-2 -5.2H2V-2H5.2V2H2V5.2H-2V2H-5.2V-2H-2Z", // plus
    "M0 -5.5L5.3 -1.6L3.3 4.6H-3.3L-5.3 -1.6Z", // pentagon
    "M-5 -5L0 -2L5 -5L2 0L5 5L0 2L-5 5L-2 0Z", // star of four
  ];

  // Elements

  function fill(made, attributes, text) {
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  }

  const SVG = "http://www.w3.org/2000/svg";
  const element = (name, attributes = {}, text = "") => fill(document.createElement(name), attributes, text);
  const drawing = (name, attributes = {}, text = "") => fill(document.createElementNS(SVG, name), attributes, text);

  // Charts

  function colour(style) {
    return `var(--colour-${style % COLOURS})`;
  }

  function marker(style, filled, size) {
    const path = drawing("path", { d: SHAPES[style % SHAPES.length], transform: `scale(${size})` });
    path.style.stroke = colour(style);
    path.style.fill = filled ? colour(style) : "var(--back)";
    return path;
  }

  function joining(style, hollow, pixels) {
    const line = drawing("polyline", { class: "line", points: pixels.map((one) => one.join(",")).join(" ") });
    line.style.stroke = colour(style);
    line.style.strokeDasharray = DASHES[(style + hollow) % DASHES.length];
    return line;
  }

  function draw(chart, plot, group) {
    const width = plot.clientWidth;
    const height = Math.round(Math.min(440, Math.max(260, width * 0.72)));
    const shown = (point) => point.joined || group.all;
    const every = chart.series.flatMap((series) => series.points.filter(shown));
    const values = (axis) => [
      ...every.map((point) => point[axis]),
      ...chart.marks.filter((mark) => mark.axis === axis).map((mark) => mark.at),
    ];
    const x = spread(chart.x, values("x"), MARGIN.left, width - MARGIN.right, 46);
    const y = spread(chart.y, values("y"), height - MARGIN.bottom, MARGIN.top, 22);
    const svg = drawing("svg", { width, height, role: "group", "aria-label": chart.title });
    drawAxes(svg, chart, x, y, width, height);
    const spots = [];
    for (const series of chart.series) {
      if (group.hidden.has(series.name)) continue;
      const style = group.styles.get(series.look || series.name);
      const layer = drawing("g", { class: "series" });
      layer.dataset.name = series.name;
      const pixel = (point) => [x.at(point.x).toFixed(1), y.at(point.y).toFixed(1)];
      const line = series.points.filter((point) => point.joined).map(pixel);
      if (series.line) layer.append(joining(style, series.hollow, line));
      for (const point of series.points.filter(shown)) {
        const spot = drawSpot(series, point, pixel(point), style);
        layer.append(spot);
        spots.push(spot);
      }
      svg.append(layer);
    }
    drawMarks(svg, chart, x, y, width, height);
    listen(svg, spots);
    plot.replaceChildren(svg);
  }

  function drawAxes(svg, chart, x, y, width, height) {
    const bottom = height - MARGIN.bottom;
    for (const value of x.ticks) {
      const at = x.at(value);
      svg.append(drawing("line", { class: "grid", x1: at, x2: at, y1: MARGIN.top, y2: bottom }));
      svg.append(drawing("text", { x: at, y: bottom + 16, "text-anchor": "middle" }, written(value)));
    }
    for (const value of y.ticks) {
      const at = y.at(value);
      svg.append(drawing("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at }));
      svg.append(drawing("text", { x: MARGIN.left - 6, y: at + 4, "text-anchor": "end" }, written(value)));
    }
    const said = (axis) => axis.label + (axis.scale === "log" ? " (log)" : "");
    svg.append(drawing("text", { class: "label", x: 2, y: 12 }, said(chart.y)));
    const place = { class: "label", x: width - MARGIN.right, y: height - 6, "text-anchor": "end" };
    svg.append(drawing("text", place, said(chart.x)));
  }

  function drawMarks(svg, chart, x, y, width, height) {
    for (const mark of chart.marks) {
      const ends = { x1: MARGIN.left, x2: width - MARGIN.right, y1: MARGIN.top, y2: height - MARGIN.bottom };
      const place = { class: "over", x: MARGIN.left + 4, y: height - MARGIN.bottom - 6 };
      if (mark.axis === "x") {
        ends.x1 = ends.x2 = x.at(mark.at);
        place.x = ends.x1 + 5;
      } else {
        ends.y1 = ends.y2 = y.at(mark.at);
        place.y = ends.y1 - 5;
      }
      svg.append(drawing("line", { class: "mark", ...ends }), drawing("text", place, mark.label));
    }
  }

  function drawSpot(series, point, [left, top], style) {
    const said = point.tip.map(([name, value]) => `${name} ${value}`).join(", ");
    const spot = drawing("g", {
      class: "point",
      role: "img",
      tabindex: -1,
      "aria-label": `${series.name}: ${said}`,
      transform: `translate(${left},${top})`,
    });
    const many = series.line && series.points.filter((one) => one.joined).length > MANY;
    spot.append(marker(style, point.filled, many ? 0.6 : 1));
    Object.assign(spot, { left: +left, top: +top, series, point });
    return spot;
  }

  // One marker of a chart can be reached by Tab, the others from it by arrow keys.
  function listen(svg, spots) {
    if (!spots.length) return;
    spots[0].setAttribute("tabindex", 0);
    const find = (event) => {
      const box = svg.getBoundingClientRect();
      const distance = (spot) => Math.hypot(spot.left + box.left - event.clientX, spot.top + box.top - event.clientY);
      const nearest = spots.reduce((best, spot) => (distance(spot) < distance(best) ? spot : best));
      if (distance(nearest) < NEAR) showTip(nearest);
      else showFocused();
    };
    svg.addEventListener("pointermove", find);
    svg.addEventListener("click", find);
    svg.addEventListener("pointerleave", (event) => {
      // A finger leaves as soon as it has shown where.
      if (event.pointerType !== "touch") showFocused();
    });
    svg.addEventListener("focusin", (event) => showTip(event.target));
    svg.addEventListener("focusout", hideTip);
    svg.addEventListener("keydown", (event) => {
      const current = spots.indexOf(event.target);
      const next = spots[nextSpot(spots, current, event.key)];
      if (event.key === "Escape") hideTip();
      if (!next) return;
      event.preventDefault();
      event.target.setAttribute("tabindex", -1);
      next.setAttribute("tabindex", 0);
      next.focus();
    });
  }

  function nextSpot(spots, current, key) {
    const mine = spots[current].series;
    if (key === "ArrowRight") return current + 1;
    if (key === "ArrowLeft") return current - 1;
    if (key === "Home") return 0;
    if (key === "End") return spots.length - 1;
    if (key === "ArrowDown") return spots.findIndex((spot, i) => i > current && spot.series !== mine);
    const before = spots.findLast((spot, i) => i < current && spot.series !== mine);
    return key === "ArrowUp" && before ? spots.findIndex((spot) => spot.series === before.series) : -1;
  }

  // The tooltip

  function showTip(spot) {
    hideTip();
    spot.classList.add("current");
    const lines = spot.point.tip.map(([name, value]) => {
      const line = element("div");
      line.append(element("span", {}, name), element("span", {}, value));
      return line;
    });
    tip.replaceChildren(element("strong", {}, spot.series.name), ...lines);
    tip.hidden = false;
    const box = spot.getBoundingClientRect();
    const right = document.documentElement.clientWidth - tip.offsetWidth - 8;
    const above = box.top - tip.offsetHeight - 8;
    tip.style.left = `${scrollX + Math.max(8, Math.min(right, box.left + 14))}px`;
    tip.style.top = `${scrollY + (above > 0 ? above : box.bottom + 8)}px`;
  }

  // What the keyboard has chosen is shown while the pointer is at no marker.
  function showFocused() {
    if (document.activeElement.point) showTip(document.activeElement);
    else hideTip();
  }

  function hideTip() {
    tip.hidden = true;
    for (const spot of document.querySelectorAll(".point.current")) spot.classList.remove("current");
  }

  // Panels: what is chosen, and which methods are hidden, holds for a whole group of them.

  function setUp(panel, section) {
    if (!groups.has(panel.group))
      groups.set(panel.group, { members: [], hidden: new Set(), all: false, styles: new Map(), chosen: [] });
    groups.get(panel.group).members.push({ panel, section, views: [...section.querySelectorAll(".view")] });
  }

  // Charts of many methods come first: there it matters most that no two have the same colour.
  function setUpLegends(group) {
    const places = group.members.flatMap(({ panel, views }) =>
      panel.views.flatMap((view, i) =>
        view.charts.map((chart, k) => ({ chart, legend: views[i].querySelectorAll(".legend")[k] }))));
    places.sort((a, b) => b.chart.series.length - a.chart.series.length);
    for (const { chart, legend } of places) setUpLegend(chart, legend, group);
  }

  function setUpLegend(chart, legend, group) {
    for (const { name, look, hollow } of chart.series) {
      if (!group.styles.has(look || name)) group.styles.set(look || name, group.styles.size);
      const style = group.styles.get(look || name);
      const sample = drawing("svg", { width: 26, height: 14, viewBox: "-13 -7 26 14", "aria-hidden": true });
      sample.append(joining(style, hollow, [[-13, 0], [13, 0]]), marker(style, !hollow, 1));
      const button = toggle(legend, name, () => !group.hidden.has(name), () => {
        if (!group.hidden.delete(name)) group.hidden.add(name);
        refresh(group);
      });
      button.prepend(sample);
    }
    if (chart.series.every((series) => series.points.every((point) => point.joined))) return;
    const button = toggle(legend, "beaten codes too", () => group.all, () => {
      group.all = !group.all;
      refresh(group);
    });
    button.classList.add("all");
  }

  function toggle(legend, name, isOn, change) {
    const button = element("button", { type: "button", "aria-pressed": isOn() }, name);
    button.isOn = isOn;
    button.addEventListener("click", change);
    legend.append(button);
    return button;
  }

  function setUpChoices(group) {
    const all = group.members.flatMap((member) => member.panel.views.map((view) => view.keys));
    group.options = (level) => {
      const fitting = all.filter((keys) => keys.slice(0, level).every((key, i) => key === group.chosen[i]));
      return [...new Set(fitting.map((keys) => keys[level]))];
    };
    for (const { panel, section } of group.members)
      for (const [level, name] of panel.choices.entries()) {
        const label = element("label", {}, name);
        const select = element("select");
        select.addEventListener("change", () => {
          group.chosen[level] = select.value;
          refresh(group);
        });
        label.append(select);
        section.querySelector(".choices").append(label);
      }
    refresh(group);
  }

  function refresh(group) {
    hideTip();
    for (let level = 0; level < group.members[0].panel.choices.length; level++) {
      const options = group.options(level);
      if (!options.includes(group.chosen[level])) group.chosen[level] = options[0];
    }
    for (const { panel, section, views } of group.members) {
      for (const [level, select] of section.querySelectorAll("select").entries()) {
        select.replaceChildren(...group.options(level).map((key) => element("option", { value: key }, key)));
        select.value = group.chosen[level];
      }
      const current = panel.views.findIndex((view) => view.keys.every((key, i) => key === group.chosen[i]));
      section.querySelector(".nothing").hidden = current >= 0;
      for (const [i, view] of views.entries()) view.hidden = i !== current;
      if (current < 0) continue;
      const plots = views[current].querySelectorAll(".plot");
      for (const [k, chart] of panel.views[current].charts.entries()) draw(chart, plots[k], group);
      for (const button of views[current].querySelectorAll(".legend button"))
        button.setAttribute("aria-pressed", button.isOn());
    }
  }

  // Tables

  function sortable(table) {
    const heads = [...table.querySelectorAll("th")];
    for (const [column, head] of heads.entries()) {
      head.setAttribute("aria-sort", "none");
      head.firstElementChild.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        sortRows(table.tBodies[0], column, head.classList.contains("number"), down ? -1 : 1);
      });
    }
  }

  function sortRows(body, column, numeric, sign) {
    const key = (row) => {
      const cell = row.cells[column];
      return numeric ? parseFloat(cell.dataset.value) : cell.textContent;
    };
    const compare = (a, b) => {
      const [one, other] = [key(a), key(b)];
      if (!numeric) return sign * one.localeCompare(other, "en", { numeric: true });
      // What was not measured stays at the end either way.
      if (isNaN(one) || isNaN(other)) return isNaN(one) - isNaN(other);
      return sign * (one - other);
    };
    body.append(...[...body.rows].sort(compare));
  }

  // Light and dark

  function setUpTheme() {
    const button = document.getElementById("theme");
    const root = document.documentElement;
    const system = matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
    const name = () => { button.textContent = isDark() ? "Light" : "Dark"; };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      name();
    });
    system.addEventListener("change", name);
    name();
  }

  const sections = document.querySelectorAll(".panel");
  for (const [i, panel] of panels.entries()) setUp(panel, sections[i]);
  for (const group of groups.values()) {
    setUpLegends(group);
    setUpChoices(group);
  }
  for (const table of document.querySelectorAll("table")) sortable(table);
  setUpTheme();
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    for (const group of groups.values()) refresh(group);
  });
})();
