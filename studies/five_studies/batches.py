"""Study 003's best batch beside ours: the fastest batch, and the batch with the most samples/s per memory."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.gaps import gap
from accelbench.answers.words import options_text
from accelbench.report.read import Sweep
from accelbench.report.table import Table, count, number, tabulate_known
from accelbench.schema.cell import Mode
from five_studies import published
from five_studies.comparison import one_per_setting
from five_studies.published import Line, by_place

COLUMNS = by_place(
    "network",
    "device",
    "precision",
    "options",
    "whose",
    "fastest batch",
    "samples/s",
    "over batch 8 (x)",
    "how sure",
    "best for the memory",
    "largest batch",
)
NOTES = [
    'The study calls batch 8 optimal ("best speed/VRAM balance") and 16 the largest for 2 GB, but computes neither. '
    "Its fastest batch follows from its own times. Ours are chosen among the batches that ran. Best for the memory: "
    "the most samples/s per MB of the allocator's peak, which is unknown on a CPU."
]


def table(sweep: Sweep) -> Table | None:
    """The best batch of each network on each device, ours and the study's. None if the study named no best batch."""
    optimal = next((entry for entry in published.load(sweep.study) if entry.metric == "optimal_batch"), None)
    if optimal is None:
        return None
    lines = [*_ours(sweep, int(optimal.value)), *_theirs(sweep, int(optimal.value))]
    models = list(dict.fromkeys(reported.cell.model.name for reported in sweep.cells))
    known = [line for line in lines if line[0] in models]
    return tabulate_known("The best batch", COLUMNS, sorted(known, key=lambda line: models.index(line[0])), NOTES)


def claim(sweep: Sweep) -> str:
    """A sentence with the study's best batch, and our fastest batch of the same network and precision. May be empty."""
    optimal = next((entry for entry in published.load(sweep.study) if entry.metric == "optimal_batch"), None)
    if optimal is None:
        return ""
    own = [line for line in _ours(sweep, int(optimal.value)) if line[:3:2] == [optimal.model, optimal.precision]]
    said = [
        f"on the {line[1]} {line[5].text}"
        + (f" ({line[7].text} times batch {optimal.value:.0f}, {line[8]})" if line[8] else "")
        for line in own
    ]
    return f"Its best batch is {optimal.value:.0f}; fastest here: {', '.join(said)}." if said else ""


def _ours(sweep: Sweep, optimal: int) -> Iterator[list[Any]]:
    groups: dict[tuple[str | None, ...], dict[int, MeasuredCell]] = defaultdict(dict)
    for each in one_per_setting(each for each in sweep.cells if each.is_ok and each.cell.mode == Mode.infer):
        cell = each.cell
        # The texts show all settings that differ. Options include the engine, the threads and the number of devices.
        groups[cell.model.name, cell.device, cell.precision, options_text(each.row)][cell.batch_size] = each
    for settings, by_batch in groups.items():
        if len(by_batch) > 1:  # a single batch is no choice
            fastest = max(by_batch.values(), key=lambda each: each.speed or 0.0)
            per_mb = {
                each: (each.speed or 0.0) / mb for each in by_batch.values() if (mb := each.number("peak_device_mb"))
            }
            leanest = max(per_mb, key=lambda each: per_mb[each]).cell.batch_size if per_mb else None
            base = by_batch.get(optimal)
            found = gap(fastest, base) if base is not None and base is not fastest else None
            over_base = number(1.0 if base else None)
            how_sure: str | None = None
            if found:
                over_base = number(found.ratio)
                how_sure = found.how_sure
            best = (count(fastest.cell.batch_size), number(fastest.speed))
            yield [*settings, "ours", *best, over_base, how_sure, count(leanest), count(max(by_batch))]


def _theirs(sweep: Sweep, optimal: int) -> Iterator[Line]:
    """The study's batch with the most samples/s on each device, computed from the study's times."""
    rates: dict[tuple[str, str | None, str], dict[int, float]] = defaultdict(dict)
    for entry in published.load(sweep.study):
        if entry.metric == "latency" and entry.batch_size:
            rates[entry.model, entry.device, entry.precision][entry.batch_size] = 1e3 * entry.batch_size / entry.value
    for settings, by_batch in rates.items():
        fastest = max(by_batch, key=lambda size: by_batch[size])
        found = (published.find(sweep.study, settings[0], name, settings[1]) for name in ("optimal_batch", "max_batch"))
        named = [count(each.value if each else None) for each in found]
        best = (count(fastest), number(by_batch[fastest]), number(by_batch[fastest] / by_batch[optimal]))
        yield [*settings, None, "published", *best, None, *named]
