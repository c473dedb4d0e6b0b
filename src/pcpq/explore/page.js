// The page: reads the controls, asks the server, and shows the answers.
import { drawBytes, drawCurve, drawSizes, drawStages } from "./charts.js";
import { ask, byId, count, decimal, duration, element, hint, plural, redrawn } from "./elements.js";
import { VectorMap } from "./map.js";
import { queryName, resultsAbout, showResults } from "./results.js";

const PAUSE = 120; // milliseconds without a change after which the slider searches
const SUGGESTED = 30; // ids that are suggested for what was typed
const DRIFTED = 1.2; // drift from which on refit is recommended

const say = (text) => (byId("status").textContent = text);
const map = new VectorMap(byId("map"), byId("tip"), { chosen: searchBy, said: say });
let index = null; // what data/overview says
let points = null; // what data/map says
let shown = null; // the last answer of a search
let asked = 0; // searches so far: an answer to any but the last is dropped
let pending = new AbortController();
let timer = 0;

// The index

async function start() {
  try {
    index = await ask("data/overview");
  } catch (error) {
    return showProblem(error.message);
  }
  document.title = `${index.name} – pcpq explore`;
  byId("name").textContent = index.name;
  showFacts();
  showControls();
  showStatistics();
  if (index.stats.vectors === 0) return showEmpty();
  try {
    await showMap();
  } catch (error) {
    byId("map-note").textContent = error.message;
  }
  if (points && points.ids.some((id) => id !== null)) searchBy(points.ids.find((id) => id !== null));
}

function showFacts() {
  const { stats } = index;
  const bytes = Object.values(stats.bytes_per_vector).reduce((sum, part) => sum + part, 0);
  const facts = [
    [count(stats.vectors), stats.vectors === 1 ? "vector" : "vectors"],
    [count(stats.dimensions), stats.dimensions === 1 ? "dimension" : "dimensions"],
    [index.metric, "metric"],
    [count(stats.lists), stats.lists === 1 ? "list" : "lists"],
    [stats.vectors ? decimal(bytes, 4) : "–", "bytes per vector"],
    [index.keep || "codes only", "kept"],
  ];
  byId("facts").replaceChildren(...facts.map(([value, name]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

function showControls() {
  byId("k").max = index.usual.most;
  byId("k").value = index.usual.k;
  byId("target").max = index.targets.length - 1;
  byId("target").value = index.targets.indexOf(index.usual.target);
  byId("id-kind").textContent = index.ids === "str" ? "a string id" : "an integer id";
  byId("id").inputMode = index.ids === "str" ? "text" : "numeric";
  if (index.queries) {
    byId("by").hidden = false;
    byId("row").max = index.queries.rows - 1;
    byId("row-of").textContent = `0 to ${count(index.queries.rows - 1)} of ${index.queries.name}`;
  }
  if (index.attributes.length) {
    byId("where-field").hidden = false;
    const some = index.attributes.slice(0, 20).join(", ");
    byId("where-names").textContent = `Attributes: ${some}${index.attributes.length > 20 ? ", …" : ""}.`;
  }
  showTarget();
}

function showEmpty() {
  for (const control of document.querySelectorAll("#form input, #form button, #target, #colour, .zoom button")) control.disabled = true;
  byId("results").replaceChildren(element("p", { class: "empty" }, "This index is empty: there is nothing to find."));
  byId("map-note").textContent = "There are no vectors to show.";
  byId("recall-note").textContent = "There are no vectors to search.";
  byId("map-help").hidden = true;
}

function showStatistics() {
  const { stats, lists, settings } = index;
  redrawn(byId("lists"), (width) => drawSizes(byId("lists"), lists, width));
  byId("lists-note").textContent =
    `${plural(stats.lists, "list", "lists")}: median ${decimal(lists.median)}, mean ${decimal(lists.mean)}, ` +
    `largest ${count(lists.high)}; ${count(stats.empty_lists)} empty.`;
  if (stats.vectors) {
    drawBytes(byId("bytes"), stats.bytes_per_vector);
    const total = Object.values(stats.bytes_per_vector).reduce((sum, part) => sum + part, 0);
    byId("bytes-note").textContent = `${decimal(total)} in all; as float32, a vector alone would take ${count(4 * stats.dimensions)}.`;
  } else byId("bytes-note").textContent = "There are no vectors.";
  const rows = [
    ["drift", stats.drift.toFixed(3), stats.drift > DRIFTED ? "refit is recommended" : "1 as in training"],
    ["imbalance", stats.imbalance.toFixed(3), "1 if all lists are equally long"],
    ["segments", count(stats.segments), ""],
    ["removed", count(stats.removed), "rows that compact frees"],
    ["ids", index.ids === "str" ? "strings" : "integers", ""],
    ["recall", index.recall ? `${count(index.recall.queries)} queries` : "not measured", index.recall ? `${index.recall.kind}` : ""],
    ["generation", count(index.generation), "number of the last commit"],
    ...Object.entries(settings).map(([name, value]) => [name, value, ""]),
    ...(stats.chosen ? [["chosen", stats.chosen, ""]] : []),
  ];
  byId("stats").replaceChildren(
    ...rows.map(([name, value, note]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, value, note ? hint(note) : null)),
    ),
  );
}

// The map

async function showMap() {
  points = await ask("data/map");
  // Values are numbers: an attribute may have any name, also "list".
  byId("colour").replaceChildren(...["list", ...points.by].map((name, i) => element("option", { value: i - 1 }, name)));
  map.setPoints(points);
  const all = points.points === points.of;
  const what = `${all ? "" : `A random sample of ${count(points.points)} of `}${plural(points.of, "vector", "vectors")}`;
  const share = decimal(100 * (points.shares[0] + points.shares[1]), 2);
  byId("map-note").textContent =
    `${what}${points.decoded ? ", decoded from codes" : ""}, by two principal components, which hold ${share} % of the variance.`;
  suggest();
  await showColours();
}

async function showColours() {
  const by = byId("colour").value;
  let colours;
  try {
    colours = await ask(by < 0 ? "data/colours" : `data/colours?by=${encodeURIComponent(points.by[by])}`);
  } catch (error) {
    byId("legend").replaceChildren(element("li", {}, error.message));
    return;
  }
  if (byId("colour").value !== by) return; // another was chosen meanwhile
  map.setColours(colours);
  const entries = colours.legend.map((entry) =>
    element(
      "li",
      {},
      element("span", { class: `swatch ${map.colourOf(entry.group)}` }),
      entry.label || "(empty)",
      hint(count(entry.points)),
    ),
  );
  const shared = colours.kind === "lists" && !entries.length;
  byId("legend").replaceChildren(
    ...(shared ? [element("li", {}, "Points of a list have the same colour; lists share seven colours.")] : entries),
  );
}

function suggest() {
  const typed = byId("id").value;
  const fits = points ? points.ids.filter((id) => id !== null && id.startsWith(typed)).slice(0, SUGGESTED) : [];
  byId("ids").replaceChildren(...fits.map((id) => element("option", { value: id })));
}

// Searches

// The field drops line breaks, so an id that was chosen is kept beside it.
let chosenId = null;

function searchBy(id) {
  setBy("id");
  byId("id").value = id;
  chosenId = id;
  search();
}

function setBy(name) {
  for (const radio of document.querySelectorAll("[name=by]")) radio.checked = radio.value === name;
  byId("id-field").hidden = name !== "id";
  byId("row-field").hidden = name !== "row";
}

function wanted() {
  const by = document.querySelector("[name=by]:checked").value;
  const number = (name) => (byId(name).value === "" ? null : Number(byId(name).value));
  const query = by === "id" ? { id: chosenId ?? byId("id").value } : { row: number("row") };
  return { ...query, k: number("k"), target_recall: targetOf(), where: byId("where").value || null };
}

const targetOf = () => index.targets[Number(byId("target").value)];

// Search with what the controls say. Only the answer to the newest search is shown.
async function search() {
  clearTimeout(timer);
  const own = ++asked;
  pending.abort();
  pending = new AbortController();
  for (const id of ["results-card", "tiles"]) (byId(id) || document.querySelector(`.${id}`)).setAttribute("aria-busy", "true");
  try {
    const options = { method: "POST", headers: { "Content-Type": "application/json" }, signal: pending.signal };
    const found = await ask("data/search", { ...options, body: JSON.stringify(wanted()) });
    if (own === asked) show(found);
  } catch (error) {
    if (own === asked) showProblem(error.message);
  }
  if (own !== asked) return;
  for (const busy of document.querySelectorAll("[aria-busy]")) busy.removeAttribute("aria-busy");
}

function show(found) {
  shown = found;
  byId("problem").textContent = "";
  showResults(byId("results"), found, { chosen: searchBy, pointed: (rank) => map.point(rank) });
  byId("results-about").textContent = resultsAbout(found, index.stats.vectors);
  map.setFound({ ...found.map, ids: found.results.map((result) => result.id), name: queryName(found.query) });
  showRecall();
  say(`${resultsAbout(found, index.stats.vectors)}. ${byId("expected").textContent} expected recall, ${byId("time").textContent}.`);
}

function showProblem(message) {
  shown = null;
  byId("problem").textContent = message;
  byId("results").replaceChildren(element("p", { class: "empty" }, "No results."));
  byId("results-about").textContent = "";
  map.setFound(null);
  for (const id of ["expected", "time", "scanned", "probed", "reranked"]) byId(id).textContent = "–";
  for (const id of ["stages", "curve"]) byId(id).replaceChildren();
  byId("curve-figure").hidden = true;
}

// Recall

function showTarget() {
  const target = targetOf();
  byId("target-shown").textContent = decimal(target);
  byId("target").setAttribute("aria-valuetext", `target recall ${decimal(target)}`);
}

function showRecall() {
  const { settings, work, time, curve } = shown;
  const all = settings.how === "all";
  byId("expected").textContent = settings.recall !== null ? settings.recall.toFixed(3) : all && index.keep ? "exact" : "unknown";
  byId("time").replaceChildren(duration(time.median), hint(`median of ${time.repetitions}`));
  byId("scanned").replaceChildren(count(work.rows_scanned), hint(`of ${count(work.rows)}`));
  byId("probed").replaceChildren(count(work.lists_probed), hint(`of ${count(work.lists)}`));
  byId("reranked").replaceChildren(count(work.candidates_reranked), hint(`by ${work.reranked_by}`));
  byId("target").disabled = settings.how !== "chosen";
  byId("recall-note").textContent = noteOf(settings);
  drawStages(byId("stages"), work.microseconds);
  byId("curve-figure").hidden = !curve.length;
  byId("curve-title").textContent = `Expected recall by estimated work, k = ${count(shown.k)}`;
  drawCurve(byId("curve"), curve, shown.target, byId("curve").clientWidth);
}

function noteOf(settings) {
  if (settings.how === "all") {
    const few = `${plural(shown.allowed, "vector", "vectors")}${shown.where === null ? "" : " that meet the condition"}`;
    const by = index.keep ? `by their ${index.keep} form` : "by their codes alone, whose recall is not known";
    return `Up to ${count(index.few)} vectors are all compared, so there is nothing to choose: here ${few}, ${by}.`;
  }
  if (settings.how === "usual")
    return (
      "Recall of this index was never measured, so a target cannot be chosen: run pcpq tune with queries. " +
      "A twentieth of the lists is scanned."
    );
  if (settings.recall < shown.target - 0.0055) {
    const by = index.keep ? `vectors kept as ${index.keep}` : "codes alone";
    return `A recall of ${decimal(shown.target)} is out of reach with ${by}; about ${settings.recall.toFixed(3)} is reached.`;
  }
  return "The share of the true nearest vectors that a search finds. More recall takes more time.";
}

// While the slider moves, what is known of its stop is shown at once; the search follows.
function slide() {
  showTarget();
  const stop = shown && shown.curve.find((point) => point.target === targetOf());
  if (stop) {
    byId("expected").textContent = stop.recall.toFixed(3);
    byId("scanned").replaceChildren(`about ${count(Math.round(stop.rows))}`, hint(`of ${count(index.stats.vectors)}`));
    drawCurve(byId("curve"), shown.curve, stop.target, byId("curve").clientWidth);
  }
  clearTimeout(timer);
  asked++; // an answer that is under way is for another target
  timer = setTimeout(search, PAUSE);
}

const random = (n) => Math.floor(Math.random() * n);

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
byId("random").addEventListener("click", () => {
  const known = points ? points.ids.filter((id) => id !== null) : [];
  if (known.length) searchBy(known[random(known.length)]);
});
byId("random-row").addEventListener("click", () => {
  byId("row").value = random(index.queries.rows);
  search();
});
for (const radio of document.querySelectorAll("[name=by]")) radio.addEventListener("change", () => setBy(radio.value));
byId("id").addEventListener("input", () => {
  chosenId = null;
  suggest();
});
byId("target").addEventListener("input", slide);
byId("colour").addEventListener("change", showColours);
byId("nearer").addEventListener("click", () => map.zoomBy(1.6));
byId("farther").addEventListener("click", () => map.zoomBy(1 / 1.6));
byId("whole").addEventListener("click", () => map.fit());
byId("near-found").addEventListener("click", () => map.fitFound());
redrawn(byId("curve"), (width) => shown && drawCurve(byId("curve"), shown.curve, targetOf(), width));
start();
