"""The main part of a study's section: each published time beside our time of the same job, and a summary."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.words import options_text
from accelbench.presentation import counted
from accelbench.report.read import Sweep
from accelbench.report.table import Column, Dot, Entry, Table, number, tabulate
from accelbench.schema.cell import Engine, Mode
from accelbench.schema.serialize import grouped
from five_studies import batches, published, speedups, steps, times, training
from five_studies.comparison import (
    METRICS,
    PRECISIONS,
    STAND_IN,
    compare_with_published,
    describe,
    published_for_sweep,
    stand_in,
)
from five_studies.published import Published

MAX_ROWS = 24
LOOKS = ("filled", "hollow", "square", "square hollow", "small", "small hollow")  # of the dots, one for each engine
WHAT = {Mode.train: "training", Mode.infer: "testing"}


class Pair(NamedTuple):
    """A published time, and with each engine our time of the same job, precision, batch and kind of device."""

    network: str
    job: str
    device: str
    published: Published
    ours: Mapping[Engine, Entry]
    cells: Mapping[Engine, MeasuredCell]  # engine -> the cell that our time is from

    def time(self, engine: Engine) -> Entry:
        """Our time, followed by its ratio to the published time, such as `~33.5 (0.468x)`."""
        if engine not in self.ours:
            return number(None)
        ours = self.ours[engine]
        return Entry(f"{ours.text} ({self.ratio(engine).text.removeprefix('~')}x)", ours.key)

    def ratio(self, engine: Engine) -> Entry:
        """Our time over the published time, with `~` if our time is an estimate."""
        ours = self.ours[engine]
        assert isinstance(ours.key, float)
        found = number(ours.key / self.published.value)
        return Entry("~" * ours.text.startswith("~") + found.text, found.key)

    @property
    def own_ratio(self) -> Entry:
        """The ratio with the first engine: the study's own framework, if it was measured."""
        return self.ratio(next(iter(self.ours)))

    @property
    def cells_text(self) -> str:
        """The cells that our times are from. Cells that differ only in the engine share one text."""
        texts = {engine: describe(cell).removesuffix(f", {STAND_IN}") for engine, cell in self.cells.items()}
        by_others = grouped(texts, lambda engine: texts[engine].replace(f", {engine}", "", 1))
        is_single = len(by_others) > 1
        return "; ".join(
            texts[engines[0]] if is_single and len(engines) == 1 else text for text, engines in by_others.items()
        )

    @property
    def stand_in(self) -> str:
        """`stand-in` if any of our cells read a stand-in of its data set, else empty."""
        return max(map(stand_in, self.cells.values()))


@lru_cache(8)  # the headline needs the pairs, too
def every_pair(sweep: Sweep) -> list[Pair]:
    """A pair for every published time for which we have a time of the same job."""
    return [*_of_jobs(sweep), *_of_one_epoch(sweep), *_of_steps(sweep)]


def pairs(sweep: Sweep) -> list[Pair]:
    """The pairs to show. If there are more than `MAX_ROWS`, one for each network, device and source."""
    found = every_pair(sweep)
    if len(found) <= MAX_ROWS:
        return found
    first: dict[tuple[str, str, str], Pair] = {}
    for each in sorted(found, key=lambda each: PRECISIONS.index(each.published.precision)):
        first.setdefault((each.network, each.device, _machine(each).partition(",")[0]), each)
    names = list(dict.fromkeys(each.network for each in found))
    return sorted(first.values(), key=lambda each: names.index(each.network))


def _machine(pair: Pair) -> str:
    return pair.published.source.rpartition(": ")[2]


def _of_jobs(sweep: Sweep) -> Iterator[Pair]:
    """The pairs of training and testing. Our testing times are from evaluations, because inference computes less."""
    for each in (each for mode in METRICS for each in compare_with_published(sweep, mode)):
        known: dict[Engine, Entry] = {}
        cells: dict[Engine, MeasuredCell] = {}
        for engine, ours in each.ours.items():
            cell, time = (ours.cell, ours.seconds) if each.mode == Mode.train else (ours.tested, ours.evaluation)
            if each.published and cell and time and steps.has_same_settings(each.published, cell):
                known[engine] = times.seconds_entry(time)
                cells[engine] = cell
        if each.published and known:
            yield Pair(each.model, f"{WHAT[each.mode]}, {each.job}", each.device_text, each.published, known, cells)


def _of_one_epoch(sweep: Sweep) -> Iterator[Pair]:
    for each in (each for each in published_for_sweep(sweep) if each.metric == "one_epoch_time"):
        if found := training.first_epochs(sweep, each):
            known = {engine: entry for engine, (_, entry) in found.items()}
            cells = {engine: cell for engine, (cell, _) in found.items()}
            yield Pair(each.model, "building and one epoch", str(each.device), each, known, cells)


def _of_steps(sweep: Sweep) -> Iterator[Pair]:
    """The pairs of single steps. Cells with options are left out, because the studies used no options."""
    for line in (line for name in ("time_per_image", "latency") for line in steps.lines(sweep, name)):
        cell = line.reported.cell
        if line.published and line.value is not None and options_text(line.reported.row) is None:
            job = f"{cell.precision}, batch {cell.batch_size}"
            ours = {cell.engine: number(line.value)}
            yield Pair(cell.model.name, job, cell.device, line.published, ours, {cell.engine: line.reported})


def table(found: Sequence[Pair]) -> Table | None:
    """The pairs as a table, with a dot for each ratio. None without pairs."""
    if not found:
        return None
    own = list(dict.fromkeys(engine for each in found for engine in each.ours))
    unit = found[0].published.unit
    sources = list(dict.fromkeys(each.published.source for each in found))
    columns: list[Column[Pair]] = [
        Column("network", lambda each: each.network),
        Column("job", lambda each: each.job),
    ]
    looks = ", ".join(f"{look} for {engine}" for engine, look in zip(own, LOOKS, strict=False))
    dots = f"dots, {looks}" if len(own) > 1 else "dots"
    notes = [
        f"x: our time over the published time, below 1 if ours is shorter. The page also draws the ratio as {dots}."
    ]
    devices = list(dict.fromkeys(each.device for each in found))
    if len(devices) > 1:
        columns.append(Column("device", lambda each: each.device))
    else:
        notes.append(f"On the {devices[0]}.")
    if len(sources) > 1:
        columns.append(Column("published on", _machine))
    else:
        notes.append(f"Published by {sources[0]}.")
    columns.append(Column(f"published ({unit})", lambda each: published.entry(each.published)))
    if all(each.stand_in for each in found):
        notes.append(f"Ours are of {STAND_IN}s.")
    elif any(each.stand_in for each in found):
        columns.append(Column("ours: data", lambda each: each.stand_in))
    columns += [Column(f"{engine} ({unit})", partial(Pair.time, engine=engine)) for engine in own]
    columns.append(Column("ours: cells", lambda each: each.cells_text))
    if any(entry.text.startswith("~") for each in found for entry in each.ours.values()):
        notes.append("~: estimated, from a window, or from fewer samples or epochs, at the cell's samples/s.")
    made = tabulate("Ours beside the published times", columns, found, [" ".join(notes)])
    return replace(made, **_drawn(found, own))


def _drawn(found: Sequence[Pair], own: Sequence[Engine]) -> dict[str, Any]:
    """The dots and the axis of a table: a dot for each ratio, on a logarithmic axis around 1."""
    ratios = [{engine: each.ratio(engine) for engine in each.ours} for each in found]
    values = [float(ratio.key or 1) for each in ratios for ratio in each.values()]
    low = min(0.5, *values) / 1.1
    high = max(2.0, *values) * 1.1

    def place(value: float) -> float:
        return 100 * math.log(value / low) / math.log(high / low)

    def dot(pair: Pair, engine: Engine, ratio: Entry) -> Dot:
        look = f"{pair.published.device} {LOOKS[own.index(engine)]}"
        return Dot(place(float(ratio.key or 1)), f"{engine}: {ratio.text} of the published time", look)

    digits = (2, 5, 10) if high / low < 50 else (10,)
    ticks = [1.0, *(digit * 10.0**power for power in range(-9, 9) for digit in digits)]
    return {
        "dots": [[dot(pair, *each) for each in of_pair.items()] for pair, of_pair in zip(found, ratios, strict=True)],
        "axis": [(place(tick), f"{tick:g}") for tick in dict.fromkeys(ticks) if low < tick < high],
    }


def sentence(sweep: Sweep, found: Sequence[Pair]) -> str:
    """Sentences that compare our measurements with the study's claims. Empty without a study."""
    return " ".join(filter(None, [speedups.claim(sweep), *_of_times(sweep, found), batches.claim(sweep)]))


def _of_times(sweep: Sweep, found: Sequence[Pair]) -> Iterator[str]:
    """Sentences with the range of our times over the published times, by device. Without pairs: our time of the job."""
    ratios: dict[str, list[Entry]] = defaultdict(list)
    marks: dict[str, str] = defaultdict(str)
    for each in found:
        what = f"On the {each.device}, {next(iter(each.ours))}"
        ratios[what].append(each.own_ratio)
        marks[what] = f", {STAND_IN}" if each.stand_in else marks[what]
    for what, entries in ratios.items():
        tilde = "~" if any(entry.text.startswith("~") for entry in entries) else ""
        times_as = f"{tilde}{speedups.span(entries)} times as long as published"
        yield f"{what} takes {times_as} ({counted(len(entries), 'pair')}{marks[what]})."
    for compared in compare_with_published(sweep, Mode.train) if not found and sweep.study else []:
        said = []
        for engine, ours in compared.ours.items():
            if ours.seconds:
                mark = f" ({STAND_IN})" if stand_in(ours.cell) else ""
                said.append(f"{times.seconds_entry(ours.seconds).text} s with {engine}{mark}")
        if said:
            yield f"The study's job, {compared.job}, takes {', '.join(said)} on our {compared.device_text}."
