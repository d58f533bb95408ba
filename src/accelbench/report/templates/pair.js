"use strict";
// Two cells that are ticked in the table: their speeds and the ratio. Nothing is judged here.

function compareWith(cell) {
  if (state.pair.includes(cell)) state.pair = state.pair.filter(other => other !== cell);
  else state.pair = [...state.pair.slice(-1), cell];
  drawPair();
  writeHash();
}

// The faster cell, the slower one, the ratio of their speeds, and its bounds by both intervals.
function gapOf(a, b) {
  const [first, second] = a.samples_per_s < b.samples_per_s ? [b, a] : [a, b];
  const ends = [first.samples_per_s_low / second.samples_per_s_high, first.samples_per_s_high / second.samples_per_s_low];
  const hasEnds = [first, second].every(cell => cell.samples_per_s_low && cell.samples_per_s_high);
  return [first, second, first.samples_per_s / second.samples_per_s, hasEnds ? ends : null];
}

// Why two cells are not compared; empty if they are.
function refusalOf(a, b) {
  if (a.cell === b.cell) return ["Both are the same cell."];
  const without = [a, b].find(cell => !cell.job);
  if (without) return [`${without.label} has no speed to compare${without.outcome === "ok" ? "" : `: ${because(without)}`}.`];
  if (a.job !== b.job) return [`Different jobs: ${a.job}, and ${b.job}.`];
  if (a.batch_size === b.batch_size) return [];
  const link = make("a", {href: "#which-batch-size"}, "Which batch size?");
  link.addEventListener("click", event => {
    event.preventDefault();
    goTo(place("which-batch-size"));
  });
  return [`Different batches, ${a.batch_size} and ${b.batch_size}`, ...place("which-batch-size") ? [": see ", link] : ["."]];
}

function speedOf(cell) {
  const name = cell.mode === "generate" ? "tokens_per_s" : "samples_per_s", scale = cell[name] / cell.samples_per_s;
  const ends = [cell.samples_per_s_low, cell.samples_per_s_high].filter(end => end !== null);
  return `${text(cell[name])} ${name.split("_")[0]}/s` + (ends.length ? ` (${ends.map(end => text(scale * end)).join(" to ")})` : "");
}

function answerOf([, , ratio, bounds]) {
  const within = bounds ? ` (${bounds.map(end => text(end)).join(" to ")} by both intervals)` : "";
  return [make("b", {}, `${text(ratio)}x`), `${within}; only the command decides how sure that is`];
}

const quoted = words => `'${words.replaceAll("'", "'\\''")}'`;
function actsOf(cells, isCompared) {
  const clear = make("button", {type: "button"}, "clear");
  clear.addEventListener("click", () => {
    state.pair = [];
    drawPair();
    writeHash();
    rowNamed(cells[0].name)?.querySelector(".pick").focus();
  });
  if (!isCompared) return [clear];
  if (!cells.every(cell => cell.command)) return [make("span", {}, "the commands that measured them are unknown"), clear];
  const words = [...cells].reverse().map(cell => quoted(cell.command.replace("accelbench ", "")));
  const command = `accelbench compare --run ${words.join(" ")}`;
  return [make("code", {}, command), copyButton("copy", command), clear];
}

function drawPair() {
  const box = place("pair"), {pair} = state;
  for (const pick of body.querySelectorAll(".pick")) pick.checked = pair.some(cell => cell.name === pick.closest("tr").dataset.cell);
  box.hidden = !pair.length;
  const refusal = pair.length === 2 ? refusalOf(...pair) : ["Tick another cell to compare it with."];
  const gap = refusal.length ? null : gapOf(...pair), cells = gap?.slice(0, 2) ?? pair;
  box.querySelector("ol").replaceChildren(...cells.map(cell => make("li", {},
    make("b", {}, cell.setting ?? cell.label), cell.job ? ` b${cell.batch_size}, ${cell.job}: ${speedOf(cell)}` : "", cell.warnings ? " !" : "")));
  box.querySelector("[role=status]").replaceChildren(...gap ? answerOf(gap) : refusal);
  box.querySelector(".acts").replaceChildren(...actsOf(cells, pair.length === 2 && !refusal.length));
}
listeners.push(drawPair);
