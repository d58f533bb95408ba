"use strict";
// The table of every cell, its download, the choice of a cell, and the sorting of all other tables.
const every = place("every"), body = every.tBodies[0], PAGE = 100, FIRST = 20;
const unfolded = new Set();  // reasons
let listed = [], limit = FIRST;

// Unknown values are last in both orders.
function compareBy(key, descending) {
  return (a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    return (descending ? -1 : 1) * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(y));
  };
}

// The speed over that of the fastest cell of its job that is listed.
function barOf(cell, most) {
  const percent = share => `${(100 * share / most.get(cell.job)).toFixed(1)}%`;
  const bar = make("td", {class: "share"});
  if (cell.share !== null) bar.append(make("span", {class: `track ${cell.device}`, role: "img", "aria-label": percent(cell.share)},
    make("i", {style: `width: ${percent(cell.share)}`})));
  return bar;
}

function rowOf(cell, most) {
  const row = make("tr", {"data-cell": cell.name, class: cell === state.cell ? "chosen" : cell.outcome});
  for (const {name, kind} of COLUMNS.filter(isListed)) {
    if (name === "label") {
      const pick = make("input", {type: "checkbox", class: "pick", "aria-label": `compare ${cell.label}`,
        title: "Space: compare; Enter: to the comparison"});
      pick.checked = state.pair.includes(cell);
      row.append(make("th", {scope: "row"}, pick, make("button", {type: "button", class: "choose"}, cell.label)));
      continue;
    }
    if (kind === "bar") {
      row.append(barOf(cell, most));
      continue;
    }
    const tilde = kind === "time" && cell.time_provenance === "estimated" && cell.time_s !== null ? "~" : "";
    const words = tilde + text(cell[name], kind);
    row.append(name === "remark" ? make("td", {}, make("div", {class: "clamped", title: words}, words))
      : make("td", kind === "word" ? {} : {class: "number"}, words));
  }
  return row;
}

const isListed = ({name}) => state.wide || DATA.main.includes(name);
const isFolded = cell => DATA.folded.includes(cell.outcome);

// Cells that were skipped for one reason share a line, which unfolds; on paper it names them.
function foldOf(reason, cells) {
  const isOpen = unfolded.has(reason);
  const button = make("button", {type: "button", class: "choose", "aria-expanded": isOpen}, `${WHOLE.format(cells.length)} ${reason}`);
  const names = isOpen ? "" : make("div", {class: "names"}, cells.map(cell => cell.label).join(", "));
  return make("tr", {class: "fold", "data-reason": reason}, make("td", {colspan: COLUMNS.filter(isListed).length}, button, names));
}
// What a button was asked to add comes first.
function rowsOf(cells) {
  const folds = grouped(cells.filter(isFolded), because), most = new Map();
  for (const {job, share} of cells) most.set(job, Math.max(share, most.get(job) ?? 0));
  const draw = cell => [isAsked(cell), () => rowOf(cell, most)];
  const rows = [...cells.filter(cell => !isFolded(cell)).map(draw), ...[...folds].flatMap(([reason, alike]) =>
    [[isAsked(alike[0]), () => foldOf(reason, alike)], ...(unfolded.has(reason) ? alike.map(draw) : [])])];
  return rows.sort(([a], [b]) => b - a).map(([, row]) => row);
}

// The table has measured cells only, until others are asked for: by a button, by the filter of the status, or on paper.
let isPaper = false;
const isAsked = cell => state.also.has(cell.outcome);
function wantedOf(cells) {
  if (isPaper || state.filters.outcome?.size || !cells.some(cell => cell.outcome === "ok")) return cells;
  return cells.filter(cell => cell.outcome === "ok" || isAsked(cell));
}
function drawAlso(cells) {
  const focused = document.activeElement.dataset.outcome;
  const others = grouped(cells.filter(cell => cell.outcome !== "ok"), cell => cell.outcome);
  place("also").replaceChildren(...[...others].map(([outcome, alike]) =>
    make("button", {type: "button", "data-outcome": outcome, "aria-pressed": state.also.has(outcome)}, `${WHOLE.format(alike.length)} ${outcome}`)));
  place("also").querySelector(`[data-outcome="${focused}"]`)?.focus({preventScroll: true});
}
place("also").addEventListener("click", event => {
  const {outcome} = event.target.dataset;
  if (!outcome) return;
  if (!state.also.delete(outcome)) state.also.add(outcome);
  drawTable(shownCells());
  writeHash();
});

function drawTable(shown) {
  listed = [...shown];
  every.classList.toggle("wide", state.wide);
  if (state.sort) listed.sort(compareBy(cell => cell[state.sort.name] === "" ? null : cell[state.sort.name], state.sort.descending));
  for (const head of every.tHead.rows[0].cells) {
    const isSorted = state.sort?.name === head.dataset.name;
    if (isSorted) head.setAttribute("aria-sort", state.sort.descending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
    head.hidden = !isListed(head.dataset);
  }
  drawAlso(listed);
  const rows = rowsOf(wantedOf(listed));
  body.replaceChildren(...rows.slice(0, limit).map(draw => draw()));
  const num = body.querySelectorAll("[data-cell]").length;
  place("listed").textContent = `${WHOLE.format(num)} of ${WHOLE.format(listed.length)} that pass the filters`;
  place("more").hidden = rows.length <= limit;
  place("columns").textContent = state.wide ? "fewer columns" : "more columns";
  place("columns").setAttribute("aria-expanded", state.wide);
  place("download").textContent = `Download these ${WHOLE.format(listed.length)} cells as CSV`;
}

function grow(to) {
  limit = to;
  drawTable(shownCells());
}
place("next").addEventListener("click", () => grow(limit + PAGE));
place("rest").addEventListener("click", () => grow(Infinity));
place("columns").addEventListener("click", () => {
  state.wide = !state.wide;
  update();
});

every.tHead.addEventListener("click", event => {
  const head = event.target.closest("th");
  if (!event.target.closest("button")) return;
  const {name} = head.dataset;
  state.sort = {name, descending: state.sort?.name === name && !state.sort.descending};
  drawTable(shownCells());
  writeHash();
});
function unfold(reason) {
  if (!unfolded.delete(reason)) unfolded.add(reason);
  drawTable(shownCells());
  [...body.rows].find(row => row.dataset.reason === reason).querySelector("button").focus({preventScroll: true});
}
body.addEventListener("change", event => compareWith(BY_NAME.get(event.target.closest("tr").dataset.cell)));
body.addEventListener("keydown", event => {
  if (event.key === "Enter" && event.target.matches(".pick")) place("pair").querySelector("button")?.focus();
});
body.addEventListener("click", event => {
  const row = event.target.closest(".choose")?.closest("tr");
  if (row?.dataset.cell) choose(BY_NAME.get(row.dataset.cell));
  else if (row) unfold(row.dataset.reason);
});

// The columns of cells.csv, empty where unknown. An apostrophe keeps spreadsheets from taking a text for a formula.
function csv(cells) {
  const field = value => {
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(value)) value = `'${value}`;
    const words = value === null ? "" : value === true ? "True" : value === false ? "False" : String(value);
    return /[",\r\n]/.test(words) ? `"${words.replaceAll('"', '""')}"` : words;
  };
  return [DATA.csv, ...cells.map(cell => DATA.csv.map(name => cell[name]))].map(row => row.map(field).join(",") + "\n").join("");
}
place("download").addEventListener("click", () => {
  const url = URL.createObjectURL(new Blob([csv(listed)], {type: "text/csv"}));
  make("a", {href: url, download: "cells.csv"}).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
});

// The chosen cell is kept in the fragment, and marked in charts and table.
const rowNamed = name => [...body.rows].find(row => row.dataset.cell === name);
function choose(cell) {
  const from = document.activeElement, row = from.closest("tr[data-cell]"), chart = from.closest(".charts") ?? document;
  const name = row?.dataset.cell ?? from.cell?.name ?? (card.contains(from) ? cell.name : null);
  state.cell = cell === state.cell ? null : cell;
  update();
  if (name === null) return;
  // Charts and table were drawn again: the focus returns to the same cell.
  const mark = [...chart.querySelectorAll(".mark")].find(each => each.cell.name === name);
  const again = row || !mark ? rowNamed(name)?.querySelector("button") : mark;
  again?.focus({preventScroll: true});
}
function showRow() {
  if (!listed.includes(state.cell)) {
    for (const {name} of FILTERS) state.filters[name].clear();
    state.words = "";
    showControls();
    update();
  }
  if (state.cell.outcome !== "ok") state.also.add(state.cell.outcome);
  if (isFolded(state.cell)) unfolded.add(because(state.cell));
  grow(rowNamed(state.cell.name) ? limit : Infinity);
  const row = rowNamed(state.cell.name);
  row.scrollIntoView({block: "center"});
  row.querySelector("button").focus({preventScroll: true});
}
// The picture hides the marks of cells that the filters leave out.
const marksThatPass = () => JOBS.map(job => job.gains.map(picture.passes).join()).join();
let drawnMarks = marksThatPass();
function filterPicture(shown) {
  const names = new Set(shown.map(cell => cell.name));
  picture.passes = gain => !BY_NAME.has(gain.cell) || names.has(gain.cell);
  const marks = marksThatPass();
  if (marks !== drawnMarks) drawPicture();
  drawnMarks = marks;
}
function showCell(name) {
  if (!BY_NAME.has(name)) return false;
  state.cell = null;
  choose(BY_NAME.get(name));
  return true;
}
listeners.push(drawTable, filterPicture);

// Paper has every row of the table, and all that is folded on the screen.
let restore = () => {};
addEventListener("beforeprint", () => {
  const {all} = picture, earlier = limit;
  picture.all = true;
  drawPicture();
  const closed = [...document.querySelectorAll("details:not([open], [name])")];
  for (const each of closed) each.open = true;
  isPaper = true;
  grow(Infinity);
  restore = () => {
    isPaper = false;
    for (const each of closed) each.open = false;
    picture.all = all;
    drawPicture();
    grow(earlier);
  };
});
addEventListener("afterprint", () => restore());

// Sorts the other tables, whose rows are on the page already.
for (const table of document.querySelectorAll("table:not(#every)")) {
  table.tHead.addEventListener("click", event => {
    const head = event.target.closest("button") && event.target.closest("th");
    if (!head) return;
    const descending = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const key = row => {
      const entry = row.cells[head.cellIndex];
      if (head.classList.contains("number")) return entry.dataset.key === undefined ? null : Number(entry.dataset.key);
      return entry.textContent === "–" ? null : entry.textContent;
    };
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compareBy(key, descending)));
  });
}

buildControls();
readHash();
if (!Object.keys(state.filters).length) state.filters = Object.fromEntries(FILTERS.map(({name}) => [name, new Set()]));
update();
if (/^#[^=]+$/.test(location.hash) && place(decodeURIComponent(location.hash.slice(1)))) goTo(place(decodeURIComponent(location.hash.slice(1))));
addEventListener("hashchange", () => {
  readHash();
  update();
});
