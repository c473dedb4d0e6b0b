"use strict";
// The page: what is chosen holds for a group of panels, what the legend hides for the whole page.
(() => {
  const { element } = elements;
  const { looks, panels } = JSON.parse(document.getElementById("data").textContent);
  const groups = new Map();
  const hidden = new Set();
  const styles = new Map(looks.map((look) => [look.name, look.style]));

  function setUp(panel, section) {
    if (!groups.has(panel.group)) groups.set(panel.group, { members: [], all: false, hidden, styles, chosen: [] });
    groups.get(panel.group).members.push({ panel, section, views: [...section.querySelectorAll(".view")] });
  }

  // The legend

  function setUpLegend() {
    for (const button of document.querySelectorAll("#legend button")) {
      const name = button.dataset.look;
      button.prepend(charts.sample(styles.get(name)));
      button.addEventListener("click", () => {
        if (!hidden.delete(name)) hidden.add(name);
        button.setAttribute("aria-pressed", !hidden.has(name));
        for (const bars of document.querySelectorAll(".bar-group")) bars.hidden = hidden.has(bars.dataset.look);
        for (const group of groups.values()) refresh(group);
      });
    }
  }

  // A button for points that others of the same method beat; it is shown with views that have any.
  function setUpBeaten(group) {
    for (const { section } of group.members) {
      const button = element("button", { type: "button", class: "all", "aria-pressed": false }, "Show beaten points too");
      button.addEventListener("click", () => {
        group.all = !group.all;
        button.setAttribute("aria-pressed", group.all);
        refresh(group);
      });
      section.querySelector(".choices").append(button);
    }
  }

  function hasBeaten(chart) {
    return chart.series.some((series) => series.points.some((point) => !point.joined));
  }

  // Choices

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
    setUpBeaten(group);
    refresh(group);
  }

  function refresh(group) {
    charts.hideTip();
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
      section.querySelector(".all").hidden = !panel.views[current].charts.some(hasBeaten);
      const plots = views[current].querySelectorAll(".plot");
      for (const [k, chart] of panel.views[current].charts.entries()) charts.draw(chart, plots[k], group);
    }
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
  setUpLegend();
  for (const group of groups.values()) setUpChoices(group);
  for (const table of document.querySelectorAll("table")) tables.sortable(table);
  for (const frame of document.querySelectorAll(".frame")) tables.watch(frame);
  setUpTheme();
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    for (const group of groups.values()) refresh(group);
  });
})();
