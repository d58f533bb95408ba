"""`accelbench plan`: the cells of a sweep, which are skipped, and how long it takes."""

import math
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from accelbench import lock
from accelbench.commands.command import Command, Context, flag
from accelbench.errors import UserError
from accelbench.presentation import counted, duration
from accelbench.project import Workplace, shown, workplace
from accelbench.schema.cell import Cell
from accelbench.schema.serialize import grouped
from accelbench.schema.text import clean
from accelbench.schema.vocab import RANDOM, Protocol

if TYPE_CHECKING:
    from accelbench.grid.estimate import Length
    from accelbench.grid.plan import Planned

MAX_LISTED = 20  # cells
MAX_NAMED = 4  # of the cells that are skipped for one reason
LABEL_WIDTH = 42
# How many times as fast a setting may be that gets to a target first, and the relative deviation of the times of seeds.
RATIOS, SPREAD = (1.1, 1.2, 1.3, 1.5), 0.1
TO_START = "To start: an engine is imported for its first cell, a network exported once."


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.grid.estimate import lengths
    from accelbench.isolation.hosts import Hosts
    from accelbench.schema.serialize import canonical_json, plain
    from accelbench.settings.compose import cells_of, compose
    from accelbench.sweep.context import is_prepared
    from accelbench.sweep.forecast import forecast
    from accelbench.sweep.terminal import DRAWN_HZ

    sweeps = [cells_of(compose(words)) for words in _sweeps(chosen.words)]
    if chosen.json:
        for cell in (cell for cells, _ in sweeps for cell in cells):
            print(canonical_json(plain(cell)))
        return 0
    place = workplace().with_data(sweeps[0][1].data_root)
    suites: dict[str, list[Planned]] = {}
    for cells, options in sweeps:
        for of_data in grouped(cells, lambda cell: cell.data.name).values():
            suites.setdefault(options.suite, []).extend(_planned(of_data, place, options.profile))
    items = [item for planned in suites.values() for item in planned]
    runs = [item for item in items if item.skip_reason is None]
    cells = [item.cell for item in runs]
    with Hosts() as hosts, context.console.status("Estimating ...", refresh_per_second=DRAWN_HZ):
        evidence = forecast(cells, hosts, place, context.say, sweeps[0][1].profile)
    known = dict(zip(map(id, runs), lengths(cells, evidence), strict=True))
    lines = [f"{suite}: {_counted(planned, known)}" for suite, planned in suites.items()] if len(suites) > 1 else []
    lines += [f"{'in all: ' * bool(lines)}{_counted(items, known)}"]
    if rough := evidence.roughness(cells):
        lines[-1] += f" ({rough})"
    named = runs if chosen.cells else runs[: 0 if len(suites) > 1 else MAX_LISTED]
    lines += ["", *(f"{item.label:<{LABEL_WIDTH}} {_of_one(known[id(item)])}" for item in named)]
    if len(runs) > len(named):
        lines.append(f"and {len(runs) - len(named)} more: " * bool(named) + "--cells names every cell")
    lines += [TO_START] if any(known[id(item)].start_s for item in named) else []
    lines += _seeds(cells)
    data = {cell.data.name: cell.data for cell in cells if cell.data.name != RANDOM}
    missing = [shown(place.data / name) for name, each in data.items() if not is_prepared(place, each)]
    lines += [f"Not counted: {', '.join(missing)} is prepared first, once."] if missing else []
    lines += _skipped({item.label: item.skip_reason for item in items if item.skip_reason is not None}, chosen.cells)
    context.say(*lines)
    if chosen.check:
        for planned in grouped(runs, lambda item: item.cell.data.name).values():
            _check(planned, context, place)
    return 0


def _sweeps(words: list[str]) -> list[list[str]]:
    """The words of each sweep to plan: `profile=...` without a suite is that of all suites of the project."""
    from accelbench.settings.params import suite_names

    words = words if {"-m", "--multirun"} & set(words) else ["-m", *words]
    given, project = {word.partition("=")[0] for word in words}, workplace().project
    if project is None or "profile" not in given or "suite" in given:
        return [words]
    return [[*words, f"suite={name}"] for name in suite_names(project)] or [words]


def _planned(cells: Sequence[Cell], place: Workplace, profile: str | None) -> list["Planned"]:
    from accelbench.grid.plan import Planned, check_fits, check_request, data_name, in_order, why_skipped
    from accelbench.schema.plan_file import labels
    from accelbench.sweep.forecast import inputs_of

    check_request(cells)
    inputs = inputs_of(place, data_name(cells), profile)
    data = (inputs.shape or None, inputs.num_samples[0]) if inputs else (None, None)
    check_fits(cells, *data)
    ordered = in_order(cells)
    names = labels(ordered.values())
    return [Planned.of(cell, "", why_skipped(cell, *data), names[key]) for key, cell in ordered.items()]


def _counted(planned: Sequence["Planned"], known: Mapping[int, "Length"]) -> str:
    """How many cells there are, run and are skipped, and how long it takes; `known` has each one's length, by `id`."""
    found = [known[id(item)] for item in planned if item.skip_reason is None]
    is_known = not all(each.num_unknown for each in found)
    length = f", {sum(found[1:], found[0]) if is_known else 'length unknown'}" if found else ""
    return f"{counted(len(planned), 'cell')}: {len(found):,} to run{length}; {len(planned) - len(found):,} to skip."


def _of_one(length: "Length") -> str:
    start = f" ({duration(length.start_s)} to start)" if length.start_s else ""
    return "unknown until it has run once" if length.num_unknown else f"{length}{start}"


def _seeds(cells: Sequence[Cell]) -> Iterator[str]:
    """A line on what the seeds of trainings to a target can tell."""
    seeds: dict[str, set[int]] = {}
    for cell in cells:
        if cell.protocol == Protocol.target:
            seeds.setdefault(replace(cell, seed=0).id, set()).add(cell.seed)
    if not seeds:
        return
    from accelbench.stats.arrivals import num_seeds_for

    num = min(map(len, seeds.values()))
    told = next((ratio for ratio in RATIOS if num_seeds_for(ratio, SPREAD) <= num), None)
    first = "can't tell which is first" if told is None else f"tell which is first if it is {told:g} times as fast"
    more = [f"{ratio:g} times takes {num_seeds_for(ratio, SPREAD)}" for ratio in RATIOS if ratio < (told or math.inf)]
    how = f"in 4 of 5 cases, where times differ by {100 * SPREAD:.0f} % from seed to seed"
    yield f"{counted(num, 'seed')} of each setting {first} ({'; '.join([how, *more])})."


def _skipped(reasons: Mapping[str, str], lists_all: bool) -> Iterator[str]:
    for reason, names in grouped(reasons, lambda name: clean(reasons[name])).items():
        few = names if lists_all else names[:MAX_NAMED]
        more = f" and {len(names) - len(few)} more" * (len(names) > len(few))
        yield from ("", f"skip {len(names)}: {reason}", f"  {', '.join(few)}{more}")


def _check(planned: Sequence["Planned"], context: Context, place: Workplace) -> None:
    """Checks the networks of the cells, each once. Raises UserError."""
    from accelbench.grid.plan import data_of
    from accelbench.isolation.hosts import Hosts
    from accelbench.sweep.context import prepare_missing
    from accelbench.sweep.session import Preflight

    everything = [item.cell for item in planned]
    prepare_missing(place, everything[0].data, context.console)
    with lock.hold_measuring(context.console.print), Hosts() as hosts:
        preflight = Preflight(hosts, data_of(everything, place)[1], context.say)
        num = preflight.check(everything)
        failures = [(item, failure) for item in planned if (failure := preflight.failure(item.cell)) is not None]
    if failures:
        lines = [f"{item.label}: {failure.reason}" for item, failure in failures]
        raise UserError("\n  ".join(["these cells can't run:", *lines]))
    context.console.print(f"Checked {counted(num, 'network')}: found no mistake.", markup=False)


COMMAND = Command(
    name="plan",
    summary="show a sweep's cells, which are skipped, and how long it takes",
    run=_run,
    flags=(
        flag("--check", help="also build each network, and run a batch through it, without measuring"),
        flag("--cells", help="name every cell, however many they are"),
        flag("--json", help="print each cell as a line of JSON, for `python -m accelbench.worker`"),
    ),
    description="Takes the settings of `accelbench run` (`accelbench run --help` lists them); -m is implied.",
    takes_settings=True,
    has_hydra_words=True,
)
