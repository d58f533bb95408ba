"use strict";
// The card: beside the mark that is pointed at or has the focus; else in the corner, on the chosen cell, with its places.
const card = place("card");
function drawCard(mark = null) {
  if (mark && card.contains(document.activeElement)) return;
  card.mark = mark;
  const pointed = mark && mark.cell !== state.cell ? mark : null, cell = pointed?.cell ?? state.cell;
  card.hidden = !cell;
  card.classList.toggle("pointed", Boolean(pointed));
  if (!cell) return;
  card.replaceChildren(...(mark?.told ?? describe(cell)).map((words, index) => make(index ? "div" : "b", {}, words)),
    ...(pointed ? [] : placesOf(cell)));
  card.removeAttribute("style");
  if (!pointed) return;
  const at = mark.querySelector(".dot, .bar").getBoundingClientRect(), own = card.getBoundingClientRect();
  card.style.left = `${scrollX + Math.max(4, Math.min(at.right + 10, innerWidth - own.width - 8))}px`;
  card.style.top = `${scrollY + (at.bottom + own.height + 12 < innerHeight ? at.bottom + 8 : Math.max(4, at.top - own.height - 8))}px`;
}
function leaveMark() {
  if (card.classList.contains("pointed")) drawCard();
}
// A page knows no run's address: `accelbench ui` opens the project's store, or the server that it names.
function trackerOf(cell) {
  if (!cell.started_at || cell.outcome === "skipped") return ["No run in MLflow"];
  if (!cell.tracked) return ["No run in MLflow (tracking=none)"];
  return ["MLflow: ", copyButton("accelbench ui", "accelbench ui"), ` experiment accelbench/${cell.suite}, `,
    copyButton("copy search", `tags.record = "${cell.name.split("/").at(-1)}"`)];
}
function placesOf(cell) {
  const toRow = make("button", {type: "button"}, "its row in the table");
  const close = make("button", {type: "button"}, "close");
  toRow.addEventListener("click", showRow);
  close.addEventListener("click", closeCard);
  const pick = make("button", {type: "button"}, "compare");
  pick.addEventListener("click", () => compareWith(cell));
  return [make("div", {}, ...trackerOf(cell)), make("div", {}, `Record: ${cell.name}.json`), make("div", {}, toRow, " ", pick, " ", close)];
}
function closeCard() {
  choose(state.cell);
  leaveMark();  // which has the focus again
}
// Filters and pictures have an Escape of their own.
addEventListener("keydown", event => {
  if (event.key !== "Escape") return;
  if (card.classList.contains("pointed")) leaveMark();
  else if (state.cell && !event.target.closest("form, dialog")) closeCard();
});
listeners.push(() => drawCard());
