"use strict";
// The picture of the first screen: a row for each job, around what its user runs today; on it a mark for each other
// setting at the same batch. The panel has the figures of the selected mark. The page draws it before it reads the cells.
const GAINS = JSON.parse(place("gains").textContent), JOBS = GAINS.jobs;
const MAX_ALL = 12, MAX_JOBS = 10, MAX_BARS_OF_JOB = 5, MAX_NOTES = 30, GLYPH = 7.6, NOTE_GLYPH = 5.8;  // rows; of more, until all are asked for; bars in the panel; notes, of more only the selected row's; pixels of a letter, and of a note's
const DIAMOND = "M0-7L6 0 0 7-6 0Z", HEXAGON = "M-6 0L-3-5.4H3L6 0 3 5.4H-3Z";
const OF_KIND = {
  "PyTorch": ["pytorch", "M0-5.4A5.4 5.4 0 1 0 0 5.4A5.4 5.4 0 1 0 0-5.4Z"],
  "Keras": ["keras", "M-5-5H5V5H-5Z"],
  "OpenVINO": ["openvino", "M0-7L6.4 5H-6.4Z"],
  "ONNX Runtime": ["onnxruntime", "M0 7L6.4-5H-6.4Z"],
  "AOTInductor": ["aotinductor", "M-2-6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z"],
  "Lightning": ["lightning", "M0-6.4L6.1-2 3.8 5.2H-3.8L-6.1-2Z"],
  "PyTorch on XLA": ["xla", DIAMOND],
  "PyTorch on GPU": ["gpu", HEXAGON],
  "PyTorch on TPU": ["tpu", "M0-7.4L1.8-2.4 7-2.3 2.9 1 4.3 6 0 3-4.3 6-2.9 1-7-2.3-1.8-2.4Z"],
};
const SPARE = [["keras", DIAMOND], ["keras", HEXAGON], ["lightning", "M-6-4H6V4H-6Z"], ["lightning", HEXAGON], ["openvino", DIAMOND]];
const KINDS = [...new Set(JOBS.flatMap(job => job.gains.map(gain => gain.kind)))]
  .sort((a, b) => (Object.keys(OF_KIND).indexOf(a) + 1 || 99) - (Object.keys(OF_KIND).indexOf(b) + 1 || 99) || a.localeCompare(b));
for (const kind of KINDS) OF_KIND[kind] ??= SPARE.shift() ?? ["other", DIAMOND];
const picture = {job: null, gain: null, all: false, passes: () => true, isChosen: false};
const SURENESS = {sure: "sure", same: "sure", likely: "likely", "can't tell": "untold"};

const bestOf = gains => gains.find(gain => gain.told && gain.ratio > 1);
const gainsOf = job => job.gains.filter(picture.passes);
const middle = (words, num) => words.length <= num ? words : `${words.slice(0, Math.ceil(num * 0.6) - 1)}…${words.slice(words.length - Math.floor(num * 0.4))}`;
const likeText = gain => `${gain.exact}x${gain.within ? ` (${gain.within})` : ""}, ${gain.word}`;
const isDoubtful = gain => gain.doubts.length + gain.today.doubts.length > 0;
function markOf(kind, word, x = 9, y = 9) {
  const [name, shape] = OF_KIND[kind];
  return make("path", {class: `setting ${SURENESS[word]} of-${name}`, d: shape, transform: `translate(${x} ${y})`});
}

// Powers of two around 1, or of ten where these would stand too close.
function axisTicks(low, high, room) {
  const powers = base => {
    const [from, to] = [low, high].map(end => Math.log(end) / Math.log(base) + 1e-9);
    return Array.from({length: Math.max(0, Math.floor(to) - Math.ceil(from) + 1)}, (_, index) => Math.ceil(from) + index);
  };
  const base = [2, 4, 10, 100, 1000].find(each => powers(each).length * 52 <= room) ?? 1e4;
  return powers(base).map(power => [base ** power, power < 0 ? `1/${(base ** -power).toLocaleString("en-US")}` : `${(base ** power).toLocaleString("en-US")}x`]);
}

// Whether a setting may be faster.
const isOpen = gain => gain.word === "can't tell" && (!gain.bounds || gain.bounds[1] > 1);

function endOf(job, gains) {
  const best = bestOf(gains);
  if (best) return [`${best.times}x `, best.setting];
  return ["", gains.some(isOpen) ? "can't tell" : `keep ${gains[0].today.setting}`];
}

function drawPicture() {
  const box = place("picture"), shown = JOBS.filter(job => gainsOf(job).length);
  box.hidden = !shown.length;
  if (!shown.length) return select(null);
  const jobs = picture.all || shown.length <= MAX_ALL ? shown : shown.slice(0, MAX_JOBS);
  const width = Math.max(300, Math.min(box.clientWidth, 1400)), isNarrow = width < 640, height = isNarrow ? 46 : Math.max(34, Math.min(52, 468 / jobs.length));
  const longest = texts => Math.max(...texts.map(each => each.length)) * GLYPH + 16;
  const ends = jobs.map(job => endOf(job, gainsOf(job)));
  const left = isNarrow ? 8 : Math.min(width * 0.28, longest(jobs.map(job => job.name)));
  const right = isNarrow ? 8 : Math.min(width * 0.3, 12 + longest(ends.map(words => words.join(""))));
  const top = 22, bottom = top + 4 + jobs.length * height;
  const values = jobs.flatMap(job => gainsOf(job).flatMap(gain => [gain.ratio, ...gain.bounds ?? []])).filter(value => value > 0);
  const [low, high] = [Math.min(0.6, ...values) / 1.12, Math.max(2, ...values) * 1.12];
  const start = left + 6, end = width - right - 6;
  const x = value => start + (end - start) * Math.log(Math.min(high, Math.max(low, value)) / low) / Math.log(high / low);
  const axes = make("g", {"aria-hidden": "true", class: "axes"},
    make("rect", {class: "gain", x: x(1), y: top, width: end - x(1), height: bottom - top}));
  const today = isNarrow || GAINS.today.length > 20 ? "today" : GAINS.today, half = today.length * GLYPH / 2;
  for (const [value, words] of [...axisTicks(low, high, end - start), [1, today]]) {
    const isBase = words === today;
    if (value === 1 && !isBase) continue;
    axes.append(make("line", {x1: x(value), x2: x(value), y1: top - 2, y2: bottom, class: isBase ? "base" : "grid"}));
    if (isBase || Math.abs(x(value) - x(1)) > half + 22) axes.append(
      make("text", {x: isBase ? Math.max(half + 2, x(1)) : x(value), y: 14, "text-anchor": "middle", ...isBase ? {class: "strong"} : {}}, words));
  }
  const rows = jobs.map((job, index) => drawRow(job, ends[index], {y: top + 4 + index * height, height, width, left, right, isNarrow, x}));
  const label = `Speed of each other setting over ${GAINS.today}, same batch; up and down: jobs, left and right: settings`;
  const svg = make("svg", {viewBox: `0 0 ${width} ${bottom + 4}`, role: "listbox", "aria-label": label, style: `max-width: ${width}px`}, axes, ...rows);
  const all = make("button", {type: "button"}, picture.all ? `the ${MAX_JOBS} largest gains`
    : JOBS.length < GAINS.num_jobs ? `${shown.length} of ${GAINS.num_jobs} jobs` : `all ${shown.length} jobs`);
  all.addEventListener("click", () => {
    picture.all = !picture.all;
    drawPicture();
    place("picture").querySelector(".all button").focus();
  });
  const kinds = KINDS.map(kind => make("li", {}, make("svg", {viewBox: "0 0 18 18", "aria-hidden": "true"}, markOf(kind, "likely")), kind));
  const drawn = jobs.flatMap(gainsOf), sureness = ["sure", "likely", "can't tell"].filter(word => drawn.some(gain => SURENESS[gain.word] === SURENESS[word]));
  const how = [...sureness.map(word => make("li", {}, make("svg", {viewBox: "0 0 18 18", "aria-hidden": "true"}, markOf("PyTorch", word)), word)),
    ...drawn.some(gain => gain.bounds) ? [make("li", {}, drawn.some(gain => gain.bounds && !gain.exactly) ? "line: both 95 % intervals" : "line: 95 %")] : [], ...drawn.some(isDoubtful) ? [make("li", {}, "!: in doubt")] : []];
  box.classList.toggle("narrow", isNarrow);
  box.classList.toggle("dense", svg.querySelectorAll(".note").length > MAX_NOTES);
  box.replaceChildren(make("ul", {class: "kinds"}, ...kinds), svg,
    make("ul", {class: "kinds how"}, ...how,
      ...shown.length < JOBS.length ? [make("li", {}, `${shown.length} of ${JOBS.length} jobs pass the filters`)] : [],
      ...shown.length > MAX_ALL ? [make("li", {class: "all"}, all)] : []));
  select(shown.includes(picture.job) ? picture.job : shown[0], picture.gain);
}

// A note stands above its mark, or below where the one before it is too close, or has no place. The row's end names the best.
const noteOf = gain => gain.note + (isDoubtful(gain) ? "!" : "");
function placesOfNotes(gains, x) {
  const ends = new Map([[-8, -Infinity], [16, -Infinity]]), places = new Map();  // of the last note above and below
  for (const gain of [...gains].reverse()) {
    const half = noteOf(gain).length * NOTE_GLYPH / 2, from = x(gain.ratio) - half;
    const place = [...ends.keys()].find(each => ends.get(each) < from);
    if (place === undefined) continue;
    ends.set(place, x(gain.ratio) + half);
    places.set(gain, place);
  }
  return places;
}

function drawRow(job, [times, setting], {y, height, width, left, right, isNarrow, x}) {
  const gains = gainsOf(job), best = bestOf(gains), hasNotes = !isNarrow && gains.some(gain => gain.note);
  const line = y + (isNarrow ? 32 : height / 2), words = y + (isNarrow ? 17 : height / 2 + 5);
  const step = Math.min(8, (height - (isNarrow || hasNotes ? 28 : 16)) / gains.length);
  const row = make("g", {role: "option", tabindex: "-1", class: "job", "aria-selected": "false", "aria-label": [`${job.name}: ${times}${setting}`,
    ...gains.map(gain => `${gain.setting} ${likeText(gain)}${isDoubtful(gain) ? ", in doubt" : ""}`)].join("; ")},
  make("rect", {class: "hit", x: 0.5, y: y + 1, width: width - 1, height: height - 2, rx: 6}));
  const fits = Math.floor(((isNarrow ? width * 0.5 : left) - 14) / GLYPH), rest = job.name.slice(job.model.length), model = middle(job.model, Math.max(8, fits - rest.length));
  row.append(make("text", {x: 8, y: words}, make("tspan", {class: "strong"}, model), make("tspan", {class: "faint"}, middle(rest, Math.max(1, fits - model.length)))));
  const room = Math.floor(((isNarrow ? width * 0.5 : right) - 10 - times.length * 10) / GLYPH);
  row.append(make("text", isNarrow ? {x: width - 8, y: words, "text-anchor": "end"} : {x: width - right + 4, y: words},
    make("tspan", {class: "times"}, times), make("tspan", best ? {} : {class: "faint"}, setting.length > room ? `${setting.slice(0, room - 1)}…` : setting)));
  const spots = gains.map((gain, index) => line + (index - (gains.length - 1) / 2) * step);
  if (best) row.append(make("line", {class: `stem of-${OF_KIND[best.kind][0]}`, x1: x(1), x2: x(best.ratio), y1: spots[gains.indexOf(best)], y2: spots[gains.indexOf(best)]}));
  const places = hasNotes ? placesOfNotes(gains.filter(gain => gain.note && gain !== best), x) : new Map();
  gains.map((gain, index) => [gain, spots[index]]).reverse().forEach(([gain, at]) => {
    const group = make("g", {class: `one of-${OF_KIND[gain.kind][0]}`});
    if (gain.bounds) group.append(...[[gain.bounds[0], gain.bounds[1], 0, 0], ...gain.bounds.map(end => [end, end, -3.5, 3.5])]
      .map(([from, to, above, below]) => make("line", {class: "whisker", x1: x(from), x2: x(to), y1: at + above, y2: at + below})));
    const mark = markOf(gain.kind, gain.word, x(gain.ratio), at);
    group.append(mark, make("title", {}, `${gain.setting}: ${likeText(gain)}`));
    if (places.has(gain)) group.append(make("text", {class: "note", x: x(gain.ratio), y: at + places.get(gain), "text-anchor": "middle"}, noteOf(gain)));
    else if (isDoubtful(gain)) group.append(make("text", {class: "strong", x: x(gain.ratio) + 8, y: at - 3}, "!"));
    row.append(Object.assign(group, {gain}));
  });
  return Object.assign(row, {job});
}

// Shows a setting of a job in the panel: the one that is best, if there is no other wish.
function select(job, gain = null, focus = false) {
  if (!job) return Object.assign(place("panel"), {hidden: true});
  const gains = gainsOf(job), wished = gains.includes(gain) ? gain : null;
  Object.assign(picture, {job, gain: wished});
  for (const row of document.querySelectorAll("#picture .job")) {
    const isOn = row.job === job;
    row.setAttribute("aria-selected", isOn);
    row.setAttribute("tabindex", isOn ? "0" : "-1");
    for (const one of row.querySelectorAll(".one")) one.classList.toggle("on", isOn && one.gain === wished);
    if (isOn && focus) row.focus({preventScroll: false});
  }
  drawPanel(job, wished ?? bestOf(gains) ?? gains[0], gains, wished);
}

// The settings of the job as bars, the fastest first.
function barsOf(job, gains) {
  const cells = new Map();
  for (const gain of gains) cells.set(gain.cell, [gain, gain.exact + "x"]).set(gain.today.cell, [gain.today, "today"]);
  const ordered = [...cells.values()].sort((a, b) => b[0].rate - a[0].rate), several = new Set(ordered.map(([each]) => each.batch)).size > 1;
  const most = Math.max(...ordered.map(([each]) => Math.max(each.rate, each.interval[1] ?? 0)));
  const percent = value => `${(100 * value / most).toFixed(1)}%`;
  return make("ol", {class: "bars"}, ...ordered.slice(0, MAX_BARS_OF_JOB).map(([each, times]) => make("li", {},
    make("span", {}, each.setting, several ? ` b${each.batch}` : "", each.doubts.length ? " !" : ""), make("span", {}, times, make("b", {}, each.speed.split(" ")[0])),
    make("span", {class: `track of-${OF_KIND[each.kind ?? Object.keys(OF_KIND).find(kind => each.setting.startsWith(kind))]?.[0] ?? "pytorch"}`, "aria-hidden": "true"}, make("i", {style: `width: ${percent(each.rate)}`}),
      ...each.interval[0] === null ? [] : [make("b", {style: `left: ${percent(each.interval[0])}; width: ${percent(each.interval[1] - each.interval[0])}`})]))),
  ...ordered.length > MAX_BARS_OF_JOB ? [make("li", {}, `and ${ordered.length - MAX_BARS_OF_JOB} slower`)] : []);
}

function drawPanel(job, gain, gains, wished) {
  const entry = (name, ...words) => [make("dt", {}, name), make("dd", {}, ...words)];
  const small = words => make("small", {}, words);
  const isKept = !wished && !(gain.told && gain.ratio > 1), used = isKept ? gain.today : gain;
  const sure = [gain.within, gain.word].filter(Boolean).join(", ");
  const head = isKept ? [gain.told ? "keep it" : "can't tell", make("small", {class: "below"}, `${gain.setting}: ${likeText(gain)}`)] : [`${gain.exact}x `, small(sure)];
  const doubts = [gain, gain.today].flatMap(each => each.doubts.map(words => `${each.setting}: ${words}`));
  const link = make("a", {class: "record", href: `#cell=${encodeURIComponent(used.cell)}`}, "record");
  link.addEventListener("click", event => globalThis.showCell?.(used.cell) && event.preventDefault());
  place("panel").replaceChildren(make("h2", {}, job.name, " ", small(job.data)), make("p", {class: "figure"}, ...head), make("dl", {},
    ...entry("use", make("b", {}, used.setting), `, batch ${used.batch.toLocaleString("en-US")}`),
    ...entry("speed", used.speed, isKept ? "" : ` (${gain.today.speed.split(" ")[0]} today)`),
    ...used.step ? entry("median step", used.step) : [], ...used.error ? entry("output", `${used.error} off fp32's`) : [],
    ...gain.why && !gain.told ? entry("why", gain.why) : [], ...doubts.length ? entry("doubt", doubts.length > 1 ? make("details", {}, make("summary", {}, `${doubts.length} doubts`), make("div", {}, doubts.join("; "))) : doubts[0]) : []),
  barsOf(job, gains),
  make("p", {class: "acts"}, ...used.command ? [copyButton("copy command", used.command)] : [],
    ...gain.word === "sure" ? [] : [copyButton("make sure", GAINS.sure)], link));
  place("panel").hidden = false;
}

function chooseJob(target, focus) {
  const row = target.closest("#picture .job");
  if (!row) return false;
  picture.isChosen = true;
  select(row.job, target.closest(".one")?.gain ?? null, focus);
  globalThis.writeHash?.();
  return true;
}
place("picture").addEventListener("click", event => {
  if (chooseJob(event.target, true) && innerWidth < 900) place("panel").scrollIntoView({block: "nearest", behavior: "smooth"});
});
place("picture").addEventListener("keydown", event => {
  const row = event.target.closest(".job"), rows = [...document.querySelectorAll("#picture .job")];
  if (!row) return;
  const at = rows.indexOf(row), to = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1}[event.key];
  const gains = gainsOf(row.job), shown = picture.gain ?? bestOf(gains) ?? gains[0], turn = {ArrowRight: 1, ArrowLeft: -1}[event.key];
  if (to !== undefined) chooseJob(rows[Math.max(0, Math.min(rows.length - 1, to))], true);
  else if (turn) select(row.job, gains[(gains.indexOf(shown) + turn + gains.length) % gains.length]);
  else return;
  event.preventDefault();
});

// Also as the address says it, which `state.js` reads again.
const wanted = new URLSearchParams(location.hash.slice(1)).get("job");
picture.job = JOBS.find(job => job.name === wanted) ?? null;
picture.isChosen = picture.job !== null;
picture.all = JOBS.indexOf(picture.job) >= MAX_JOBS;
drawPicture();
performance.mark("picture");
let drawnFor = place("picture").clientWidth;
new ResizeObserver(() => {
  if (place("picture").clientWidth === drawnFor || !place("picture").clientWidth) return;
  drawnFor = place("picture").clientWidth;
  drawPicture();
}).observe(place("picture"));
