// The table of results.
import { count, element, plural } from "./elements.js";

function headerOf(found) {
  const cells = [
    element("th", { scope: "col", class: "number" }, "#"),
    element("th", { scope: "col" }, "Item"),
    element("th", { scope: "col", class: "number" }, found.score),
    ...found.columns.map((column) => element("th", { scope: "col", class: column.number ? "number" : null }, column.name)),
  ];
  return element("thead", {}, element("tr", {}, ...cells));
}

function itemOf(result, chosen) {
  if (result.id === null) return element("span", { class: "hint" }, "(a very long id)");
  const button = element("button", { type: "button", class: "item", title: "Search by this item" }, result.id || "(empty)");
  button.addEventListener("click", () => chosen(result.id));
  return button;
}

// A function that writes scores: with decimals by which the largest has five digits, or with an exponent if all are tiny.
function scoreWriter(results) {
  const most = Math.max(...results.map((result) => Math.abs(result.score ?? 0)));
  if (most > 0 && most < 1e-4) return (score) => score.toExponential(4);
  const decimals = Math.min(8, Math.max(0, 3 - Math.floor(Math.log10(Math.max(most, 1e-4) * 0.999))));
  return (score) => score.toFixed(decimals);
}

function rowOf(result, rank, columns, written, actions) {
  const row = element(
    "tr",
    {},
    element("td", { class: "number rank" }, String(rank + 1)),
    element("th", { scope: "row" }, itemOf(result, actions.chosen)),
    element("td", { class: "number" }, result.score === null ? "–" : written(result.score)),
    ...result.attributes.map((text, i) =>
      element("td", { class: columns[i].number ? "number" : null }, text === null ? element("span", { class: "hint" }, "null") : text),
    ),
  );
  for (const event of ["pointerenter", "focusin"]) row.addEventListener(event, () => actions.pointed(rank));
  for (const event of ["pointerleave", "focusout"]) row.addEventListener(event, () => actions.pointed(-1));
  return row;
}

// What the query was, as a heading says it.
export function queryName(query) {
  if (query.id !== null) return query.id;
  return query.row === null ? "(a very long id)" : `row ${count(query.row)}${query.name === null ? "" : `, ${query.name}`}`;
}

// Show results; `actions.chosen(id)` searches by one, `actions.pointed(rank)` marks one on the map, -1: none.
export function showResults(box, found, actions) {
  if (!found.results.length) {
    const why = found.allowed === 0 ? "No vector meets the condition." : "Nothing was found.";
    box.replaceChildren(element("p", { class: "empty" }, why));
    return;
  }
  const written = scoreWriter(found.results);
  const rows = found.results.map((result, rank) => rowOf(result, rank, found.columns, written, actions));
  box.replaceChildren(element("table", {}, headerOf(found), element("tbody", {}, ...rows)));
  box.scrollTop = 0;
}

export function resultsAbout(found, vectors) {
  const near = `${plural(found.results.length, "neighbour", "neighbours")} of “${queryName(found.query)}”`;
  return found.where === null ? near : `${near}; ${count(found.allowed)} of ${count(vectors)} vectors meet the condition`;
}
