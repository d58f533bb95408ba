"use strict";
// Charts of the shown cells: for each question a line per pair or cell; for each suite a panel per model and mode.
const WIDTH = 400, HEIGHT = 240, LEFT = 56, RIGHT = 12, TOP = 10, BOTTOM = 36, BAR = 17, MAX_BARS = 30;
const ROW = 29, MAX_ROWS = 5, MAX_ON_CARD = 4, MAX_SETTINGS = 6;
const DASHES = ["", "6 3", "2 3", "8 3 2 3", "12 4"];
const SHAPES = {
  fp16: "M0-5L5 0 0 5-5 0Z", bf16: "M-3.6-3.6H3.6V3.6H-3.6Z", fp32: "M0-4A4 4 0 1 0 0 4A4 4 0 1 0 0-4Z",
  tf32: "M0 4.8L4.5-3.4H-4.5Z", fp64: "M0-4.8L4.5 3.4H-4.5Z",
  fp16_mixed: "M-4.5-1.5H-1.5V-4.5H1.5V-1.5H4.5V1.5H1.5V4.5H-1.5V1.5H-4.5Z",
  int8: "M-2.4-4.2H2.4L4.8 0 2.4 4.2H-2.4L-4.8 0Z",
  bf16_mixed: "M0-5.5L1.4-1.8 5.2-1.7 2.2.7 3.2 4.4 0 2.3-3.2 4.4-2.2.7-5.2-1.7-1.4-1.8Z",
};
// The first engine without options has solid lines and the strongest fill.
const STYLES = distinct(CELLS.map(cell => ({style: styleName(cell)})), "style")
  .sort((a, b) => DATA.order.indexOf(a.split(" ")[0]) - DATA.order.indexOf(b.split(" ")[0]) || a.length - b.length);
const FILLS = [0.6, 0.3, 0.15, 0.45, 0.05];

function styleName(cell) {
  return `${valueOf(cell, "framework")} ${valueOf(cell, "options")}`;
}
const number = (cell, name) => typeof cell[name] === "number" ? cell[name] : null;
const unit = () => state.metric.heading;
const dash = cell => DASHES[STYLES.indexOf(styleName(cell)) % DASHES.length];
const fill = cell => FILLS[STYLES.indexOf(styleName(cell)) % FILLS.length];
const shape = cell => SHAPES[cell.precision];
function bounds(cell) {
  const [low, high] = [number(cell, state.metric.low), number(cell, state.metric.high)];
  return low !== null && high !== null ? [low, high] : null;
}

// Names the cells of a panel: device, precision, and every setting in which they differ.
const SHORT = {batch_size: value => `b${value}`, seed: value => `seed ${value}`, repeat: value => `repeat ${value}`,
  num_workers: value => `${value} workers`, steps: value => `${value} steps`, threads: value => `${value} threads`,
  rate: value => `${value}/s`, max_delay_ms: value => `${value} ms`, workers: value => `${value} instances`,
  epochs: (value, cell) => cell.protocol === "fit" ? `${value} epochs` : ""};
function naming(cells, withBatch) {
  const names = DATA.series.filter(name => !["device", "precision"].includes(name));
  const panels = [...grouped(cells, cell => `${cell.model} ${cell.mode}`).values()];
  const onDevices = [...grouped(cells, cell => `${cell.model} ${cell.mode} ${cell.device}`).values()];
  const isVaried = name => (name === "threads" ? onDevices : panels).some(inside => distinct(inside, name).length > 1);
  const varied = [...(withBatch ? ["batch_size"] : []), ...names].filter(isVaried);
  return cell => [cell.device, cell.precision, ...varied.filter(name => cell[name] !== null)
    .map(name => (SHORT[name] ?? String)(cell[name], cell))].filter(Boolean).join(" ");
}

function grouped(cells, key) {
  const groups = new Map();
  for (const cell of cells) groups.set(key(cell), [...groups.get(key(cell)) ?? [], cell]);
  return groups;
}

function describe(cell) {
  const {metric} = state, value = number(cell, metric.name), interval = bounds(cell);
  const lines = [cell.label, because(cell)];
  const add = (words, known) => words && known && lines.push(words);
  const estimated = metric.name === "time_s" && cell.time_provenance === "estimated" ? "~" : "";
  add(`${unit()}: ${estimated}${text(value, metric.kind)}`
    + (interval ? `, 95 % interval ${interval.map(end => text(end, metric.kind)).join(" to ")}` : ", no interval"), value !== null);
  const [speed, per] = cell.mode === "generate" ? ["tokens_per_s", "tokens/s"] : ["samples_per_s", "samples/s"];
  add(`${text(cell[speed])} ${per}`, metric.name !== speed && cell[speed] !== null);
  const latencies = [50, 99].filter(each => number(cell, `latency_p${each}_ms`) !== null);
  add(`latency ${latencies.map(each => `p${each} ${text(cell[`latency_p${each}_ms`])} ms`).join(", ")}`, latencies.length);
  add(`Doubt: ${cell.warnings}`, cell.warnings);
  add(`Tip: ${cell.tips}`, cell.tips);
  add(`Note: ${cell.notes}`, cell.notes);
  return lines;
}

function ticks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++) {
    for (const digit of [1, 2, 5]) found.push(digit * 10 ** power);
  }
  const inside = found.filter(tick => tick >= low * 0.999 && tick <= high * 1.001);
  const tens = inside.filter(tick => Math.abs(Math.log10(tick) % 1) < 1e-9);
  return inside.length > 7 && tens.length > 1 ? tens : inside;
}

// A mark that can be pointed at and chosen. The Tab key reaches one mark per panel, arrow keys the others.
function mark(cell, shapes, ...words) {
  const told = [...words, ...describe(cell)];
  const link = make("a", {svg: true, class: `mark ${cell.device}`, href: `#cell=${encodeURIComponent(cell.name)}`,
    "aria-label": told.join("; "), tabindex: "-1"}, ...shapes);
  if (cell === state.cell) link.classList.add("chosen");
  return Object.assign(link, {cell, told});
}

function line(x1, y1, x2, y2, name) {
  return make("line", {x1, y1, x2, y2, class: name});
}

// The cells of each line: equal in everything but the batch size.
function seriesOf(cells) {
  return [...grouped(cells, cell => DATA.series.map(name => cell[name]).join("|")).values()];
}

// The place of a value on a logarithmic axis, and the drawn axis, with words below what is across.
function logAxis(values, words, across) {
  const known = values.filter(value => value > 0);
  let [low, high] = [Math.min(...known) / 1.15, Math.max(...known) * 1.15];
  if (high / low < 4) [low, high] = [Math.sqrt(low * high) / 2, Math.sqrt(low * high) * 2];  // at least two labelled ticks
  const y = value => TOP + (HEIGHT - TOP - BOTTOM) * (1 - Math.log(value / low) / Math.log(high / low));
  const axes = make("g", {class: "axes", "aria-hidden": "true"});
  for (const tick of ticks(low, high)) {
    axes.append(line(LEFT, y(tick), WIDTH - RIGHT, y(tick), "grid"),
      make("text", {x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end"}, words(tick)));
  }
  axes.append(make("text", {x: (LEFT + WIDTH) / 2, y: HEIGHT - 4, "text-anchor": "middle"}, across));
  return [y, axes];
}

function linePanel(cells) {
  const batches = cells.map(cell => cell.batch_size);
  const values = cells.flatMap(cell => [number(cell, state.metric.name), ...bounds(cell) ?? []]);
  const [least, most] = [Math.log2(Math.min(...batches)), Math.log2(Math.max(...batches))];
  const series = seriesOf(cells);
  const x = batch => LEFT + 18 + (WIDTH - LEFT - RIGHT - 36) * (most > least ? (Math.log2(batch) - least) / (most - least) : 0.5);
  const [y, axes] = logAxis(values, tick => WHOLE.format(scaled(tick, state.metric.kind)), "batch size");
  for (const batch of new Set(batches)) {
    axes.append(make("text", {x: x(batch), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle"}, String(batch)));
  }
  const [lines, marks] = [make("g"), make("g")];
  series.forEach((points, index) => {
    const shift = (index - (series.length - 1) / 2) * Math.min(5, 30 / series.length);  // so that intervals do not hide each other
    const ordered = points.filter(cell => number(cell, state.metric.name) > 0).sort((a, b) => a.batch_size - b.batch_size);
    const spots = ordered.map(cell => [x(cell.batch_size) + shift, y(number(cell, state.metric.name))]);
    if (!spots.length) return;
    lines.append(make("path", {class: `line ${points[0].device}`, d: `M${spots.join("L")}`,
      "stroke-dasharray": dash(points[0])}));
    ordered.forEach((cell, at) => {
      const [px, py] = spots[at], interval = bounds(cell);
      const shapes = [make("circle", {cx: px, cy: py, r: 10, class: "hit"})];
      if (interval) shapes.push(line(px, y(interval[0]), px, y(interval[1]), "interval"),
        ...interval.map(end => line(px - 3, y(end), px + 3, y(end), "interval")));
      shapes.push(make("path", {class: "dot", d: shape(cell), transform: `translate(${px} ${py})`}));
      marks.append(mark(cell, shapes));
    });
  });
  return make("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`}, axes, lines, marks);
}

// Best first.
function ranked(cells) {
  const sign = state.metric.better === "more" ? -1 : 1;
  return [...cells].sort((a, b) => sign * (number(a, state.metric.name) - number(b, state.metric.name)));
}

function barPanel(cells) {
  const shown = ranked(cells).slice(0, MAX_BARS), name = naming(cells, true);
  const labels = shown.map(name), longest = Math.max(...labels.map(label => label.length));
  const written = shown.map(cell => text(number(cell, state.metric.name), state.metric.kind));
  const start = Math.min(250, 12 + 6.3 * longest), end = WIDTH - 12 - 6.3 * Math.max(...written.map(words => words.length));
  const most = Math.max(...shown.flatMap(cell => [number(cell, state.metric.name), ...bounds(cell) ?? []]));
  const x = value => start + (end - start) * (most > 0 ? value / most : 0);
  const marks = make("g");
  shown.forEach((cell, index) => {
    const top = 4 + index * BAR, middle = top + BAR / 2, value = number(cell, state.metric.name), interval = bounds(cell);
    const fits = Math.floor((start - 8) / 6.2);
    const label = labels[index].length > fits ? `${labels[index].slice(0, fits - 1)}…` : labels[index];
    const shapes = [make("rect", {class: "hit", x: 0, y: top, width: WIDTH, height: BAR}),
      make("text", {x: start - 6, y: middle + 4, "text-anchor": "end"}, label),
      make("rect", {class: "bar", x: start, y: top + 2, width: Math.max(1, x(value) - start), height: BAR - 4,
        "fill-opacity": fill(cell)})];
    if (interval) shapes.push(line(x(interval[0]), middle, x(interval[1]), middle, "interval"),
      ...interval.map(bound => line(x(bound), middle - 4, x(bound), middle + 4, "interval")));
    shapes.push(make("text", {x: Math.max(x(value), interval ? x(interval[1]) : 0) + 5, y: middle + 4}, written[index]));
    marks.append(mark(cell, shapes));
  });
  return make("svg", {viewBox: `0 0 ${WIDTH} ${8 + shown.length * BAR}`}, marks);
}

// A group and no image, since its marks are links; its name says the answer.
function figure(title, svg, what, note) {
  svg.setAttribute("role", "group");
  svg.setAttribute("aria-label", `${title.replace("?", "")}: ${what}; arrow keys go from cell to cell`);
  svg.querySelector(".mark")?.setAttribute("tabindex", "0");
  return make("figure", {class: "panel"}, svg, ...note ? [make("figcaption", {class: "note"}, note)] : []);
}

// A panel for cells with the chosen figure; null where the cards at the top, or a question, show as much of them.
function panel(title, cells) {
  const isByBatch = state.view === "auto" && seriesOf(cells).some(each => each.length > 2);
  const isOnCard = state.view === "auto" && (cells.every(cell => cell.verdict)
    || (state.metric.name === "samples_per_s" && cells.length <= MAX_ON_CARD));
  if (!isByBatch && isOnCard) return null;
  const more = !isByBatch && cells.length > MAX_BARS ? `The best ${MAX_BARS} of ${cells.length}: filter, or see the table.` : "";
  const best = ranked(cells)[0], what = unit() + (isByBatch ? " by batch size" : "");
  const answer = `${what}, best ${text(number(best, state.metric.name), state.metric.kind)} with ${naming(cells, true)(best)}`;
  const made = figure(title, isByBatch ? linePanel(cells) : barPanel(cells), answer, more);
  made.prepend(make("h4", {}, title));
  return Object.assign(made, {cells: isByBatch ? cells : []});
}

function legend(cells) {
  const name = naming(cells, false), first = new Map(cells.map(cell => [name(cell), cell]));
  return make("ul", {class: "legend"}, ...[...first].slice(0, 24).map(([words, cell]) => make("li", {class: cell.device},
    make("svg", {viewBox: "0 0 34 12", "aria-hidden": "true"},
      make("path", {class: `line ${cell.device}`, d: "M0 6H34", "stroke-dasharray": dash(cell)}),
      make("path", {class: "dot", d: shape(cell), transform: "translate(17 6)"})), make("span", {}, words))));
}

function because(cell) {
  return cell.outcome + (cell.reason && cell.reason !== cell.outcome ? `: ${cell.reason}` : "");
}

function drawCharts(shown) {
  const drawn = shown.filter(cell => number(cell, state.metric.name) !== null);
  const byFolder = grouped(drawn, cell => cell.folder);
  for (const box of document.querySelectorAll(".charts[data-folder]")) {
    const panels = [...grouped(byFolder.get(box.dataset.folder) ?? [], cell => `${cell.model}, ${cell.mode}`)]
      .map(([title, inside]) => panel(title, inside)).filter(Boolean);
    const inLines = panels.flatMap(each => each.cells), heading = unit()[0].toUpperCase() + unit().slice(1);
    box.replaceChildren(...panels.length ? [make("h3", {}, heading)] : [], ...inLines.length ? [legend(inLines)] : [],
      make("div", {class: "panels"}, ...panels));
    box.parentElement.hidden = !panels.length;
    if (state.view !== "auto" || state.metric !== METRICS[0]) box.closest(".more").open = box.parentElement.open = true;
    const section = box.closest(".suite"), {id} = section.querySelector("h2");  // hidden while it has but its heading
    const isBare = !section.querySelector(":scope > p, table, .picture");
    section.hidden = document.querySelector(`nav [href="#${id}"]`).hidden = !panels.length && isBare;
  }
  const reasons = [...grouped(shown, because)].map(([reason, each]) => `${each.length} ${reason}`).join("; ");
  place("undrawn").textContent = drawn.length ? "" : `No shown cell has this figure. ${reasons}`;
  drawQuestions(new Set(shown));
}

// The lines of the questions, most telling first: ratios around 1, percent, or the phases of a step. A question without
// a shown cell is hidden: its sentence would be about others.
function drawQuestions(shown) {
  for (const box of document.querySelectorAll(".charts[data-lines]")) {
    const {kind, title} = box.dataset;
    const known = JSON.parse(box.dataset.lines).map(([name, ...rest]) => [BY_NAME.get(name), ...rest]);
    const inside = known.filter(([cell]) => shown.has(cell)), lines = inside.slice(0, MAX_ROWS);
    if (kind === "times") lines.sort((a, b) => b[3] - a[3]);
    const section = box.closest(".question");
    section.hidden = document.querySelector(`nav [href="#${section.querySelector("h2").id}"]`).hidden = !lines.length;
    const axis = {times: "times as fast", percent: "percent", phases: "phases of a step",
      requests: "latency by requests/s", arrivals: "share that arrived by seconds"}[kind];
    const what = `${axis}. ${section.querySelector("p").textContent.replace(/\.$/, "")}`;
    const note = inside.length > MAX_ROWS ? `${MAX_ROWS} of ${inside.length}: filter for others.` : "";
    if (kind === "requests") box.replaceChildren(...lines.length ? requests(title, inside, what) : []);
    else if (kind === "arrivals") box.replaceChildren(...lines.length ? arrivals(title, inside, what) : []);
    else box.replaceChildren(...partsOf[kind] && lines.length ? [partLegend(lines, partsOf[kind])] : [],
      ...lines.length ? [figure(title, linesOf(lines, kind), what, note)] : []);
  }
}

function linesOf(lines, kind) {
  const ends = lines.flatMap(([, , , value, bounds]) => [value, ...bounds ?? []]);
  const [low, high] = [Math.min(1, ...ends) / 1.08, Math.max(1, ...ends) * 1.08], bottom = lines.length * ROW + 4;
  const most = Math.max(100, ...ends);
  const x = kind === "times" ? value => 6 + (WIDTH - 12) * Math.log(value / low) / Math.log(high / low)
    : value => 6 + (WIDTH - 12) * value / most;
  const axes = make("g", {class: "axes", "aria-hidden": "true"}), marks = make("g");
  for (const tick of kind === "times" ? ticks(low, high) : evenly(0, most)) {
    const words = kind === "times" ? (tick === 1 ? "equal" : `${tick}x`) : `${tick} %`;
    axes.append(line(x(tick), 0, x(tick), bottom, kind === "times" && tick === 1 ? "base" : "grid"),
      make("text", {x: Math.max(18, Math.min(WIDTH - 18, x(tick))), y: bottom + 12, "text-anchor": "middle"}, words));
  }
  lines.forEach((each, index) => {
    const [cell, name, words, value, bounds] = each;
    const top = index * ROW, middle = top + 22, fits = Math.floor((WIDTH - 6.3 * words.length - 14) / 6.1);
    const shapes = [make("rect", {class: "hit", x: 0, y: top + 1, width: WIDTH, height: ROW - 2}),
      make("text", {x: 4, y: top + 13, class: "over"}, name.length > fits ? `${name.slice(0, fits - 1)}…` : name),
      make("text", {x: WIDTH - 4, y: top + 13, "text-anchor": "end", class: "over"}, words)];
    if (partsOf[kind]) shapes.push(...stacked(partsOf[kind](each), middle, x));
    else shapes.push(line(x(kind === "times" ? 1 : 0), middle, x(value), middle, "stem"),
      ...bounds ? [line(x(bounds[0]), middle, x(bounds[1]), middle, "interval")] : [],
      make("path", {class: "dot", d: shape(cell), transform: `translate(${x(value)} ${middle})`}));
    marks.append(mark(cell, shapes, `${name}: ${words}${bounds ? `, within ${bounds.map(end => text(end)).join(" to ")}` : ""}`));
  });
  return make("svg", {viewBox: `0 0 ${WIDTH} ${bottom + 16}`}, axes, marks);
}

// Latency over the rate of the requests: a colour for each setting, p99 solid, a mark for each probe at the latency that
// is limited: filled for a sure pass, crossed for a sure fail, hollow where it can't be told.
const LATENCIES = [["p99", ""], ["p90", DASHES[1]], ["p50", DASHES[2]]], CROSS = "M-4-4L4 4M4-4L-4 4";
const LOOKS = {"sure pass": "passes", "sure fail": "fails"};
const latency = (cell, name) => number(cell, `request_${name}_ms`);
const limited = cell => latency(cell, `p${String(cell.limit_percentile).replace(".", "")}`);
// Without a percentile, as too many requests had no answer in time, its mark has a line over it, at the upper edge.
const isBeyond = cell => !(limited(cell) > 0) && LOOKS[cell.verdict] === "fails";
const verdictMark = (verdict, x = 17, y = 6, beyond = false) => make("path", {class: `dot ${LOOKS[verdict] ?? "unknown"}`,
  d: LOOKS[verdict] === "fails" ? CROSS + (beyond ? "M-4-7H4" : "") : SHAPES.fp32, transform: `translate(${x} ${y})`});
const hue = index => `hue${index % 6}`;

// Round values of an axis that is not logarithmic.
function evenly(least, most) {
  const step = ticks((most - least) / 6, most - least)[0], found = [];
  for (let tick = Math.ceil(least / step) * step; tick <= most * 1.0001; tick += step) found.push(Number(tick.toPrecision(6)));
  return found;
}

function requestPanel(settings, cells) {
  const rates = cells.map(cell => cell.offered_per_s), limit = cells[0].limit_ms, ends = [Math.min(...rates), Math.max(...rates)];
  const margin = (ends[1] - ends[0]) * 0.06 || 1, least = Math.max(0, ends[0] - margin), most = ends[1] + margin;
  const values = cells.flatMap(cell => [limited(cell), ...LATENCIES.map(([name]) => latency(cell, name))]);
  const [y, axes] = logAxis([limit, ...values], tick => tick < 1000 ? `${WHOLE.format(tick)} ms` : `${WHOLE.format(tick / 1000)} s`, "requests/s offered");
  const x = cell => LEFT + (WIDTH - LEFT - RIGHT) * (cell.offered_per_s - least) / (most - least);
  for (const tick of evenly(least, most)) {
    axes.append(make("text", {x: x({offered_per_s: tick}), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle"}, WHOLE.format(tick)));
  }
  axes.append(line(LEFT, y(limit), WIDTH - RIGHT, y(limit), "base"));
  const [drawn, marks] = [make("g"), make("g")];
  settings.forEach(([name, lines], index) => {
    const ordered = [...lines].sort((a, b) => a.offered_per_s - b.offered_per_s);
    for (const [percentile, dashes] of LATENCIES) {
      const spots = ordered.filter(cell => latency(cell, percentile) > 0).map(cell => [x(cell), y(latency(cell, percentile))]);
      if (spots.length) drawn.append(make("path", {class: `line ${hue(index)}`, d: `M${spots.join("L")}`, "stroke-dasharray": dashes}));
    }
    for (const cell of ordered.filter(cell => limited(cell) > 0 || isBeyond(cell))) {
      const at = [x(cell), isBeyond(cell) ? TOP : y(limited(cell))];
      const made = mark(cell.cell, [make("circle", {cx: at[0], cy: at[1], r: 10, class: "hit"}), verdictMark(cell.verdict, ...at, isBeyond(cell))],
        `${name}, ${text(cell.offered_per_s)} requests/s: ${cell.verdict}, ${text(cell.miss_share, "percent")} % missed the limit`,
        isBeyond(cell) ? "no percentile: too many requests had no answer in time"
          : LATENCIES.map(([each]) => `${each} ${text(latency(cell, each))} ms`).join(", "));
      made.classList.replace(cell.device, hue(index));
      marks.append(made);
    }
  });
  drawn.append(make("text", {x: LEFT + 2, y: y(limit) - 4, class: "over"},  // where rates are low, marks are below
    `p${cells[0].limit_percentile} at most ${WHOLE.format(limit)} ms`));
  return make("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`}, axes, drawn, marks);
}

const entry = (words, name, shape) => make("li", {class: name},
  make("svg", {viewBox: "0 0 34 12", "aria-hidden": "true"}, shape), make("span", {}, words));
const stroke = dashes => make("path", {class: "line", d: "M0 6H34", "stroke-dasharray": dashes});
function requestLegend(settings, cells) {
  return make("ul", {class: "legend"}, ...settings.map(([name], index) => entry(name, hue(index), stroke(""))),
    ...LATENCIES.map(([name, dashes]) => entry(name, "", stroke(dashes))),
    ...distinct(cells, "verdict").map(verdict => entry(verdict, "", verdictMark(verdict))),
    ...cells.some(isBeyond) ? [entry("sure fail, beyond the chart", "", verdictMark("sure fail", 17, 8, true))] : []);
}

// The chart of the first settings, which are the best, and its legend.
function requests(title, lines, what) {
  const all = [...grouped(lines, ([, name]) => name)];
  const settings = all.slice(0, MAX_SETTINGS).map(([name, inside]) => [name, inside.map(line => ({...line[0], ...line[5], cell: line[0]}))]);
  const cells = settings.flatMap(([, inside]) => inside);
  const note = [all.length > MAX_SETTINGS ? `${MAX_SETTINGS} of ${all.length} settings: filter for others.` : "",
    cells.some(cell => limited(cell) > 0 || isBeyond(cell)) ? "" : `p${cells[0].limit_percentile} is not known: no marks.`].join(" ").trim();
  return [requestLegend(settings, cells), figure(title, requestPanel(settings, cells), what, note)];
}

// The share of a setting's seeds that arrived over seconds: a step and a mark for each that did, and a hollow mark where
// one that did not was seen last. What failed, or never can arrive, has no mark, and counts.
function arrivals(title, lines, what) {
  const all = [...grouped(lines, ([, name]) => name)], settings = all.slice(0, MAX_SETTINGS);
  const end = Math.max(1e-3, ...lines.map(([, , , , , run]) => run.seconds ?? run.watched_s ?? 0)) * 1.04;
  const x = seconds => LEFT + (WIDTH - LEFT - RIGHT) * seconds / end, y = share => TOP + (HEIGHT - TOP - BOTTOM) * (1 - share);
  const axes = make("g", {class: "axes", "aria-hidden": "true"}), [drawn, marks] = [make("g"), make("g")];
  for (const share of [0, 0.25, 0.5, 0.75, 1]) axes.append(line(LEFT, y(share), WIDTH - RIGHT, y(share), share === 0.5 ? "base" : "grid"),
    make("text", {x: LEFT - 6, y: y(share) + 4, "text-anchor": "end"}, `${100 * share} %`));
  for (const tick of evenly(0, end)) axes.append(make("text", {x: x(tick), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle"}, WHOLE.format(tick)));
  axes.append(make("text", {x: (LEFT + WIDTH) / 2, y: HEIGHT - 4, "text-anchor": "middle"}, "seconds"));
  settings.forEach(([name, runs], index) => {
    const arrived = runs.filter(run => run[5].seconds !== null).sort((a, b) => a[5].seconds - b[5].seconds);
    const open = runs.filter(run => run[5].watched_s !== null), share = num => num / runs.length;
    const steps = arrived.map((run, num) => `H${x(run[5].seconds)}V${y(share(num + 1))}`).join("");
    const last = open.length ? Math.max(...open.map(run => run[5].watched_s)) : arrived.length === runs.length ? 0 : end;
    drawn.append(make("path", {class: `line ${hue(index)}`, d: `M${x(0)} ${y(0)}${steps}${last > 0 ? `H${x(last)}` : ""}`}));
    const add = ([cell, , seed], seconds, num, verdict, words) => {
      const at = [x(seconds), y(share(num))];
      const made = mark(cell, [make("circle", {cx: at[0], cy: at[1], r: 8, class: "hit"}), verdictMark(verdict, ...at)], `${name}, seed ${seed}: ${words}`);
      made.classList.replace(cell.device, hue(index));
      marks.append(made);
    };
    arrived.forEach((run, num) => add(run, run[5].seconds, num + 1, "sure pass", `arrived after ${text(run[5].seconds)} s`));
    open.forEach(run => add(run, run[5].watched_s, arrived.length, "", `had not arrived after ${text(run[5].watched_s)} s`));
  });
  const looks = [["arrived", "sure pass"], ...lines.some(([, , , , , run]) => run.watched_s !== null) ? [["not arrived", ""]] : []];
  const svg = make("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`}, axes, drawn, marks);
  return [make("ul", {class: "legend"}, ...settings.map(([name], index) => entry(name, hue(index), stroke(""))),
    ...looks.map(([words, verdict]) => entry(words, "", verdictMark(verdict)))),
  figure(title, svg, what, all.length > MAX_SETTINGS ? `${MAX_SETTINGS} of ${all.length} settings: filter for others.` : "")];
}

const PHASES = Object.keys(CELLS[0] ?? {}).map(name => name.match(/^breakdown_(.+)_ms$/)?.[1]).filter(Boolean);
const lengthOf = (cell, phase) => Math.max(0, number(cell, `breakdown_${phase}_ms`) ?? 0);
const percentOf = (cell, phase) => 100 * lengthOf(cell, phase) / PHASES.reduce((sum, each) => sum + lengthOf(cell, each), 0);
// Of a line with a stacked bar: its parts, each with its length on the axis.
const partsOf = {
  phases: ([cell]) => PHASES.map(phase => [phase, percentOf(cell, phase)]),
};
function stacked(parts, middle, x) {
  let left = 0;
  return parts.map(([name, length]) => {
    left += length;
    return make("rect", {class: `bar ${name}`, x: x(left - length), y: middle - 5, width: x(length) - x(0), height: 10});
  });
}

function partLegend(lines, parts) {
  const used = parts(lines[0]).map(([name]) => name)
    .filter(name => lines.some(each => parts(each).some(([own, length]) => own === name && length > 0.5)));
  return make("ul", {class: "legend"}, ...used.map(name => entry(name.replace("_", " "), name, make("rect", {class: "bar", width: 34, height: 12}))));
}

const marked = event => event.target.closest?.(".mark");
for (const [kind, act] of Object.entries({
  // A pointer at rest, below which a chart is drawn again, is over another mark without having moved.
  pointermove: event => marked(event) && marked(event) !== card.mark && drawCard(marked(event)),
  focusin: event => marked(event) && drawCard(marked(event)),
  pointerout: event => marked(event) && leaveMark(),
  focusout: event => marked(event) && leaveMark(),
  click: event => {
    if (!marked(event) || event.ctrlKey || event.metaKey) return;  // with these keys, the link opens in a new tab
    event.preventDefault();
    choose(marked(event).cell);
  },
  keydown: event => {
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
    if (!marked(event) || !step) return;
    event.preventDefault();
    const marks = [...marked(event).closest("svg").querySelectorAll(".mark")];
    const next = marks[(marks.indexOf(marked(event)) + step + marks.length) % marks.length];
    marked(event).setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  },
})) document.addEventListener(kind, act);
listeners.push(drawCharts);
