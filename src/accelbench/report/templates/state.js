"use strict";
// The cells, the filters, and the URL's fragment that stores them, so that a view can be shared.
const DATA = JSON.parse(document.getElementById("data").textContent);
const CELLS = DATA.rows.map(values => Object.fromEntries(DATA.names.map((name, index) => [name, values[index]])));
const BY_NAME = new Map(CELLS.map(cell => [cell.name, cell]));
const COLUMNS = DATA.columns;
const SEARCHED = COLUMNS.filter(column => column.kind === "word").map(column => column.name);
const METRICS = DATA.metrics.length ? DATA.metrics : [{name: "samples_per_s", heading: "throughput (samples/s)"}];
const NONE = "none";  // a filter's word for an empty value
const state = {filters: {}, words: "", metric: METRICS[0], view: "auto", sort: null, wide: false, cell: null,
  also: new Set(), pair: []};  // outcomes that the table lists besides ok; at most two cells that are compared
const listeners = [];  // each is called with the shown cells

const valueOf = (cell, name) => cell[name] === null ? NONE : String(cell[name]);
const FILTERS = DATA.filters.map(([heading, name]) => ({heading, name, values: distinct(CELLS, name)}))
  .filter(filter => filter.values.length > 1);

// Sorted: the vocabulary's words in its order, numbers by value, other words by alphabet.
function distinct(cells, name) {
  const rank = text => (DATA.order.indexOf(text) + 1) || 99;
  return [...new Set(cells.map(cell => valueOf(cell, name)))]
    .sort((a, b) => rank(a) - rank(b) || a - b || a.localeCompare(b));
}

const DIGITS = new Intl.NumberFormat("en-US", {
  minimumSignificantDigits: 3, maximumSignificantDigits: 3, roundingMode: "halfEven"});
const TWO = new Intl.NumberFormat("en-US", {minimumSignificantDigits: 2, maximumSignificantDigits: 2, roundingMode: "halfEven"});
const WHOLE = new Intl.NumberFormat("en-US", {maximumSignificantDigits: 15});
const scaled = (value, kind) => kind?.startsWith("percent") ? 100 * value : value;
function text(value, kind) {
  if (value === null || value === undefined || value === "") return "–";
  if (kind === "word") return String(value);
  if (kind === "count") return WHOLE.format(value);
  const number = scaled(value, kind);
  if (number === 0) return "0";
  if (Math.abs(number) < 1e-4) return number.toExponential(2);
  return (kind === "percent2" ? TWO : DIGITS).format(number.toPrecision(30));  // all digits, so that it is rounded like in Python
}

function shownCells() {
  const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = Object.entries(state.filters).filter(([, values]) => values.size);
  return CELLS.filter(cell => {
    if (!chosen.every(([name, values]) => values.has(valueOf(cell, name)))) return false;
    if (!words.length) return true;
    cell.text ??= [...SEARCHED, "batch_size"].map(name => valueOf(cell, name)).join(" ").toLowerCase();
    return words.every(word => cell.text.includes(word));
  });
}

function update() {
  const shown = shownCells();
  place("shown").textContent = `${WHOLE.format(shown.length)} of ${WHOLE.format(CELLS.length)} cells`;
  for (const listener of listeners) listener(shown);
  writeHash();
}

function writeHash() {
  const params = new URLSearchParams();
  for (const [name, values] of Object.entries(state.filters)) for (const value of values) params.append(name, value);
  if (state.words) params.set("words", state.words);
  if (state.metric !== METRICS[0]) params.set("show", state.metric.name);
  if (state.view !== "auto") params.set("as", state.view);
  if (state.sort) params.set("sort", (state.sort.descending ? "-" : "") + state.sort.name);
  if (state.wide) params.set("columns", "all");
  for (const outcome of state.also) params.append("also", outcome);
  if (state.cell) params.set("cell", state.cell.name);
  for (const cell of state.pair) params.append("compare", cell.name);
  if (picture.isChosen) params.set("job", picture.job.name);
  const hash = String(params);
  if (hash || location.hash.includes("=")) history.replaceState(null, "", hash ? `#${hash}` : "#");
}

// Reads the fragment; one without a "=" is an anchor on the page and changes nothing.
function readHash() {
  const params = new URLSearchParams(location.hash.slice(1));
  if (location.hash.length > 1 && !location.hash.includes("=")) return;
  state.filters = Object.fromEntries(FILTERS.map(({name, values}) =>
    [name, new Set(params.getAll(name).filter(value => values.includes(value)))]));
  state.words = params.get("words") ?? "";
  state.metric = METRICS.find(metric => metric.name === params.get("show")) ?? METRICS[0];
  state.view = params.get("as") === "bars" ? "bars" : "auto";
  const sort = params.get("sort");
  const name = sort?.replace(/^-/, "");
  state.sort = COLUMNS.some(column => column.name === name) ? {name, descending: sort.startsWith("-")} : null;
  state.wide = params.get("columns") === "all";
  state.also = new Set(params.getAll("also"));
  state.cell = BY_NAME.get(params.get("cell")) ?? null;
  state.pair = params.getAll("compare").map(each => BY_NAME.get(each)).filter(Boolean).slice(0, 2);
  const job = JOBS.find(each => each.name === params.get("job"));
  picture.isChosen = Boolean(job);
  if (job && job !== picture.job) select(job);
  showControls();
}

function showControls() {
  place("words").value = state.words;
  place("metric").value = state.metric.name;
  place("view").value = state.view;
  for (const box of place("choices").querySelectorAll("input")) {
    box.checked = state.filters[box.name].has(box.value);
  }
  FILTERS.forEach(({name}, index) => {
    const chosen = [...state.filters[name] ?? []];
    place("choices").children[index].querySelector("b").textContent = chosen.join(", ") || "all";
  });
}

function buildControls() {
  for (const {heading, name, values} of FILTERS) {
    const boxes = values.map(value => make("label", {},
      make("input", {type: "checkbox", name, value}), ` ${value} `,
      make("small", {}, String(CELLS.filter(cell => valueOf(cell, name) === value).length))));
    place("choices").append(make("details", {name: "filter"},
      make("summary", {}, `${heading}: `, make("b", {}, "all")), make("div", {}, ...boxes)));
  }
  place("metric").append(...METRICS.map(metric => make("option", {value: metric.name}, metric.heading)));
  const form = place("filters");
  form.addEventListener("input", event => {
    const {id, name, value, checked} = event.target;
    if (id === "words") state.words = value;
    else if (id === "metric") state.metric = METRICS.find(metric => metric.name === value);
    else if (id === "view") state.view = value;
    else state.filters[name][checked ? "add" : "delete"](value);
    showControls();
    update();
  });
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("reset", event => {
    event.preventDefault();
    for (const {name} of FILTERS) state.filters[name].clear();
    state.words = "";
    showControls();
    update();
  });
  const close = () => form.querySelector("details[open]")?.removeAttribute("open");
  form.addEventListener("keydown", event => {
    if (event.key !== "Escape") return;
    form.querySelector("details[open] summary")?.focus();
    close();
  });
  document.addEventListener("click", event => event.target.closest("#choices") || close());
}

// Nothing else shows on a phone that a picture or a table goes on at its right.
const markOverflow = new ResizeObserver(entries => entries.forEach(({target}) =>
  target.classList.toggle("wider", target.scrollWidth > target.clientWidth + 1)));
document.querySelectorAll(".scroll").forEach(box => markOverflow.observe(box));

// Links within the page move the view and the focus, and leave the fragment to the filters; a heading's own is a link to share.
function goTo(target) {
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  target.parentElement.querySelector(":scope > .more")?.setAttribute("open", "");  // of a suite
  target.scrollIntoView();
  target.focus({preventScroll: true});
}
for (const link of document.querySelectorAll("nav a, .chips a, .skip, .to")) {
  link.addEventListener("click", event => {
    event.preventDefault();
    goTo(place(decodeURIComponent(link.hash.slice(1))));
  });
}
place("link").addEventListener("click", event => copy(location.href, event.target));
place("csv").addEventListener("click", () => place("download").click());
