"use strict";
// Charts and their tooltip. A style is the number of a color and a shape; a method has the same one in all charts.
const charts = (() => {
  const { spread, written } = axes;
  const { element, drawing } = elements;
  const tip = document.getElementById("tip");
  const COLORS = 14;
  const DASHES = ["", "7 3", "2 3", "9 3 2 3"];
  const MARGIN = { left: 58, right: 16, top: 26, bottom: 42 };
  const ENDS = 66; // pixels on the right for the names of methods
  const MANY = 16; // points of a line from which on markers are small
  const NEAR = 30; // pixels from which a pointer finds a marker

  // Shapes by style. Quantizers repeat shapes of libraries that are in no chart with them, in other colors.
  const SHAPE_OF = [0, 1, 2, 3, 4, 5, 6, 0, 3, 7, 4, 8, 5, 9];
  const SHAPES = [
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0Z", // circle
    "M-4 -4H4V4H-4Z", // square
    "M0 -5.2L5 4H-5Z", // triangle
    "M0 -5.8L5.2 0L0 5.8L-5.2 0Z", // diamond
    "M0 5.2L5 -4H-5Z", // triangle upside down
    "M-2 -5.2H2V-2H5.2V2H2V5.2H-2V2H-5.2V-2H-2Z", // plus
    "M0 -5.5L5.3 -1.6L3.3 4.6H-3.3L-5.3 -1.6Z", // pentagon
    "M-4.6 -2.7L0 -5.4L4.6 -2.7V2.7L0 5.4L-4.6 2.7Z", // hexagon
    "M-4 -5L5.2 0L-4 5Z", // triangle to the right
    "M-5 -5L0 -2L5 -5L2 0L5 5L0 2L-5 5L-2 0Z", // star of four
  ];

  function color(style) {
    return `var(--color-${style % COLORS})`;
  }

  function marker(style, filled, size) {
    // Colors of further methods repeat, with other shapes.
    const shape = SHAPE_OF[style % COLORS] + Math.floor(style / COLORS);
    const path = drawing("path", { d: SHAPES[shape % SHAPES.length], transform: `scale(${size})` });
    path.style.stroke = color(style);
    path.style.fill = filled ? color(style) : "var(--back)";
    return path;
  }

  function joining(style, hollow, pixels) {
    const line = drawing("polyline", { class: "line", points: pixels.map((one) => one.join(",")).join(" ") });
    line.style.stroke = color(style);
    line.style.strokeDasharray = hollow ? DASHES[1] : DASHES[0];
    return line;
  }

  // A line with a marker, for the legend.
  function sample(style) {
    const svg = drawing("svg", { width: 24, height: 14, viewBox: "-12 -7 24 14", "aria-hidden": true });
    svg.append(joining(style, false, [[-12, 0], [12, 0]]), marker(style, true, 1));
    return svg;
  }

  // `state` has what is hidden (names of looks), whether beaten points are shown, and the style of each look.
  function draw(chart, plot, state) {
    const width = plot.clientWidth;
    const ends = chart.main && width > 480 ? ENDS : 0;
    const right = width - MARGIN.right - ends;
    const height = heightBeside(plot) || Math.round(Math.min(470, Math.max(chart.main ? 320 : 260, width * 0.62)));
    const shown = (point) => point.joined || state.all;
    const every = chart.series.flatMap((series) => series.points.filter(shown));
    const values = (axis) => [
      ...every.flatMap((point) => [point[axis], ...(axis === "y" && point.interval ? point.interval : [])]),
      ...chart.marks.filter((mark) => mark.axis === axis).map((mark) => mark.at),
    ];
    const x = spread(chart.x, values("x"), MARGIN.left, right, 46);
    const y = spread(chart.y, values("y"), height - MARGIN.bottom, MARGIN.top, 22);
    const svg = drawing("svg", { width, height, role: "group", "aria-label": chart.title });
    drawAxes(svg, chart, x, y, right, height);
    const spots = [];
    const labels = [];
    for (const series of chart.series) {
      const look = series.look || series.name;
      if (state.hidden.has(look)) continue;
      const layer = drawing("g", { class: "series" });
      layer.dataset.name = series.name;
      const pixel = (point) => [x.at(point.x).toFixed(1), y.at(point.y).toFixed(1)];
      const line = series.points.filter((point) => point.joined).map(pixel);
      if (series.line) layer.append(joining(state.styles.get(look), series.hollow, line));
      for (const point of series.points.filter(shown)) {
        const place = pixel(point);
        if (point.interval) layer.append(drawInterval(point, place[0], y, state.styles.get(look)));
        const spot = drawSpot(series, point, place, state.styles.get(look));
        layer.append(spot);
        spots.push(spot);
      }
      svg.append(layer);
      if (ends && series.line && !series.hollow && line.length) labels.push({ name: look, last: line[line.length - 1] });
    }
    drawEnds(svg, labels, height);
    drawMarks(svg, chart, x, y, right, height);
    listen(svg, spots);
    plot.replaceChildren(svg);
  }

  // The height of the main chart to the left, if there is one.
  function heightBeside(plot) {
    const before = plot.parentElement.previousElementSibling;
    const beside = before && before.matches(".main") && before.offsetTop === plot.parentElement.offsetTop;
    return beside ? before.querySelector("svg").clientHeight : 0;
  }

  function drawAxes(svg, chart, x, y, right, height) {
    const bottom = height - MARGIN.bottom;
    for (const value of x.ticks) {
      const at = x.at(value);
      svg.append(drawing("line", { class: "grid", x1: at, x2: at, y1: MARGIN.top, y2: bottom }));
      svg.append(drawing("text", { x: at, y: bottom + 16, "text-anchor": "middle" }, written(value)));
    }
    for (const value of y.ticks) {
      const at = y.at(value);
      svg.append(drawing("line", { class: "grid", x1: MARGIN.left, x2: right, y1: at, y2: at }));
      svg.append(drawing("text", { x: MARGIN.left - 6, y: at + 4, "text-anchor": "end" }, written(value)));
    }
    const said = (axis) => axis.label + (axis.scale === "log" ? " (log)" : "");
    svg.append(drawing("text", { class: "label", x: 2, y: 12 }, said(chart.y)));
    const place = { class: "label", x: right, y: height - 6, "text-anchor": "end" };
    svg.append(drawing("text", place, said(chart.x)));
  }

  function drawInterval(point, at, y, style) {
    const line = drawing("line", { class: "interval", x1: at, x2: at, y1: y.at(point.interval[0]), y2: y.at(point.interval[1]) });
    line.style.stroke = color(style);
    return line;
  }

  // Names at the right ends of lines, moved apart where they would overlap.
  function drawEnds(svg, labels, height) {
    const placed = labels.map(({ name, last }) => ({ name, left: +last[0] + 9, top: +last[1] + 4 }));
    placed.sort((a, b) => a.top - b.top);
    for (const [i, here] of placed.entries())
      for (const before of placed.slice(0, i)) {
        const over = Math.abs(before.left - here.left) < ENDS && Math.abs(before.top - here.top) < 13;
        if (over) here.top = before.top + 13;
      }
    for (const { name, left, top } of placed)
      svg.append(drawing("text", { class: "end", x: left, y: Math.min(top, height - 4) }, name));
  }

  function drawMarks(svg, chart, x, y, right, height) {
    for (const mark of chart.marks) {
      const ends = { x1: MARGIN.left, x2: right, y1: MARGIN.top, y2: height - MARGIN.bottom };
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
    // Above the marker, unless the legend or the edge of the window is there.
    const free = document.getElementById("legend").getBoundingClientRect().bottom;
    tip.style.left = `${scrollX + Math.max(8, Math.min(right, box.left + 14))}px`;
    tip.style.top = `${scrollY + (above > Math.max(0, free) ? above : box.bottom + 8)}px`;
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

  return { draw, sample, hideTip };
})();
