"""`accelbench plan`: the cells of a sweep, which would be skipped, and how long the others take."""

from argparse import Namespace

from accelbench.commands.command import Command, Context
from accelbench.presentation import duration
from accelbench.schema.cell import Cell
from accelbench.schema.text import clean
from accelbench.schema.vocab import Protocol
from accelbench.settings.parser import Parser


def _add_flags(parser: Parser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="print each cell as a line of JSON, for `python -m accelbench.worker`"
    )


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.grid.estimate import TotalEstimate
    from accelbench.grid.plan import in_order, skip_reason
    from accelbench.grid.prepare import data_name, estimates_s
    from accelbench.project import project_root
    from accelbench.schema.labels import labels
    from accelbench.schema.serialize import canonical_json
    from accelbench.settings.compose import cells_of, compose

    words = chosen.words
    cells, _ = cells_of(compose(words if {"-m", "--multirun"} & set(words) else ["-m", *words]))
    if chosen.json:
        for cell in cells:
            print(canonical_json(cell.to_json()))
        return 0
    data_name(cells)  # reports a mistake
    ordered = in_order(cells)
    estimates = estimates_s(project_root(), ordered)
    reasons = {key: skip_reason(cell) for key, cell in ordered.items()}
    names = labels(ordered.values())
    lines = [
        f"{names[key]:<42} {clean(_expectation(cell, reasons[key], estimates[key]))}" for key, cell in ordered.items()
    ]
    num_run = sum(reason is None for reason in reasons.values())
    total = TotalEstimate.of(estimates.values())
    lines.append(f"\n{len(ordered)} cells: {num_run} to run in {total}; {len(ordered) - num_run} to skip.")
    context.console.print("\n".join(lines), markup=False, soft_wrap=True)
    return 0


def _expectation(cell: Cell, reason: str | None, seconds: float | None) -> str:
    if reason is not None:
        return f"skip: {reason}"
    if seconds is not None:
        return f"about {duration(seconds)}"
    return "whole epochs" if cell.protocol == Protocol.fit else f"{cell.steps} steps"


COMMAND = Command(
    name="plan",
    summary="show the cells of a sweep, which of them are skipped, and how long the others take",
    add_flags=_add_flags,
    run=_run,
    description="Takes the settings that `accelbench run` takes (`accelbench run --help` lists them); -m is implied.",
    takes_settings=True,
    has_hydra_words=True,
)
