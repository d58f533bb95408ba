"""`accelbench plan`: the cells of a sweep, which would be skipped, and how long the others take."""

from argparse import Namespace

from accelbench.commands.command import Command, Context
from accelbench.grid.plan import Planned
from accelbench.grid.prepare import prepare
from accelbench.presentation import duration
from accelbench.schema.serialize import canonical_json
from accelbench.schema.text import clean
from accelbench.settings.compose import cells_of, compose
from accelbench.settings.parser import Parser


def _add_flags(parser: Parser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="print each cell as a line of JSON, for `python -m accelbench.worker`"
    )


def _run(chosen: Namespace, context: Context) -> int:
    words = chosen.words
    cells, _ = cells_of(compose(words if {"-m", "--multirun"} & set(words) else ["-m", *words]))
    if chosen.json:
        for cell in cells:
            print(canonical_json(cell.to_json()))
        return 0
    ready = prepare(cells)
    for item in ready.planned:
        expectation = _expectation(item, ready.estimates[item.record_name])
        context.console.print(f"{item.label:<42}", clean(expectation), markup=False, soft_wrap=True)
    known = [seconds for seconds in ready.estimates.values() if seconds is not None]
    num_run = sum(item.skip_reason is None for item in ready.planned)
    num_unknown = len(ready.planned) - len(known)
    unknown = f", and {num_unknown} of unknown length" if num_unknown else ""
    context.console.print(
        f"\n{len(ready.planned)} cells: {num_run} to run in about {duration(sum(known))}{unknown}; "
        f"{len(ready.planned) - num_run} to skip."
    )
    return 0


def _expectation(item: Planned, seconds: float | None) -> str:
    if item.skip_reason is not None:
        return f"skip: {item.skip_reason}"
    return "whole epochs" if seconds is None else f"about {duration(seconds)}"


COMMAND = Command(
    name="plan",
    summary="show the cells of a sweep, which of them are skipped, and how long the others take",
    add_flags=_add_flags,
    run=_run,
    description="Takes the settings that `accelbench run` takes (`accelbench run --help` lists them); -m is implied.",
    takes_settings=True,
    has_hydra_words=True,
)
