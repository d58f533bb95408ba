"""`accelbench plan`: the cells of a sweep, which would be skipped, and how long the others take."""

from argparse import Namespace
from collections.abc import Iterator, Mapping

from accelbench import lock
from accelbench.commands.command import Command, Context, flag
from accelbench.errors import UserError
from accelbench.presentation import counted
from accelbench.project import Workplace, workplace
from accelbench.schema.cell import Cell
from accelbench.schema.text import clean

MAX_LISTED = 20  # cells
MAX_NAMED = 4  # of the cells that are skipped for one reason
LABEL_WIDTH = 42


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.grid.estimate import Length, lengths, read_evidence
    from accelbench.grid.fingerprint import fingerprint
    from accelbench.grid.plan import check_request, in_order, skip_reason
    from accelbench.schema.plan_file import labels
    from accelbench.schema.serialize import canonical_json
    from accelbench.settings.compose import cells_of, compose

    words = chosen.words
    cells, options = cells_of(compose(words if {"-m", "--multirun"} & set(words) else ["-m", *words]))
    if chosen.json:
        for cell in cells:
            print(canonical_json(cell.to_json()))
        return 0
    check_request(cells)
    ordered = in_order(cells)
    reasons = {key: skip_reason(cell) for key, cell in ordered.items()}
    runs = [key for key, reason in reasons.items() if reason is None]
    evidence = read_evidence(workplace().root, fingerprint()["machine"], ordered.keys())
    known = dict(zip(runs, lengths([ordered[key] for key in runs], evidence), strict=True))
    names = labels(ordered.values())
    length = f", {sum(known.values(), Length()).text}" if known else ""
    lines = [f"{counted(len(ordered), 'cell')}: {len(known)} to run{length}; {len(ordered) - len(known)} to skip."]
    named = runs if chosen.cells else runs[:MAX_LISTED]
    lines += ["", *(f"{names[key]:<{LABEL_WIDTH}} {known[key]}" for key in named)]
    if len(runs) > len(named):
        lines.append(f"and {len(runs) - len(named)} more: --cells names every cell")
    lines += _skipped({names[key]: reason for key, reason in reasons.items() if reason is not None}, chosen.cells)
    context.wrap(*lines)
    if chosen.check:
        _check({key: ordered[key] for key in runs}, names, context, workplace().with_data(options.data_root))
    return 0


def _skipped(reasons: Mapping[str, str], lists_all: bool) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        by_reason.setdefault(clean(reason), []).append(name)
    for reason, names in by_reason.items():
        shown = names if lists_all else names[:MAX_NAMED]
        more = f" and {len(names) - len(shown)} more" * (len(names) > len(shown))
        yield from ("", f"skip {len(names)}: {reason}", f"  {', '.join(shown)}{more}")


def _check(cells: Mapping[str, Cell], names: Mapping[str, str], context: Context, place: Workplace) -> None:
    """Checks the networks of the cells that run, each once; cells and labels are by id. Raises UserError."""
    from accelbench.grid.plan import data_of
    from accelbench.isolation.hosts import Hosts
    from accelbench.sweep.context import prepare_missing
    from accelbench.sweep.session import Preflight

    everything = list(cells.values())
    if not everything:
        return
    prepare_missing(place, everything[0].data, context.console)
    with lock.hold_measuring(context.console.print), Hosts() as hosts:
        preflight = Preflight(hosts, data_of(everything, place)[1])
        num = preflight.check(everything)
        failures = {key: failure for key, cell in cells.items() if (failure := preflight.failure(cell)) is not None}
    if failures:
        lines = [f"{names[key]}: {failure.reason}" for key, failure in failures.items()]
        raise UserError("\n  ".join(["these cells can't run:", *lines]))
    context.console.print(f"Checked {counted(num, 'network')}: found no mistake.", markup=False)


COMMANDS = (
    Command(
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
    ),
)
