"""`accelbench best`: what to use, from records; or the largest batch that fits, found by measuring."""

import shlex
from argparse import Namespace

from accelbench.commands.command import VERBOSE, Command, Context
from accelbench.commands.default_folder import default_folder
from accelbench.errors import UserError
from accelbench.project import workplace
from accelbench.settings.parser import Parser


def _add_flags(parser: Parser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="folder",
        help="records: results, or a folder under runs/; outside of a project its newest",
    )
    parser.add_argument("--latency-ms", metavar="MS", help="leave out cells with a longer median latency (p50)")
    parser.add_argument(
        "--largest-batch", action="store_true", help="find the largest batch that fits: measures the cell of name=value"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="with --largest-batch: show what libraries print")


def _run(chosen: Namespace, context: Context) -> int:
    if chosen.largest_batch:
        if chosen.latency_ms is not None:
            raise UserError("--latency-ms: goes with records, and not with --largest-batch")
        words = [*chosen.words, VERBOSE] if chosen.verbose else chosen.words
        from accelbench.sweep import early

        with early.hosts(words) as hosts:
            # Imported while the host starts.
            from accelbench.settings.compose import one_cell
            from accelbench.sweep import largest_batch

            return largest_batch.find(*one_cell(shlex.join(words)), context.console, hosts)
    if chosen.verbose:
        raise UserError("-v: goes with --largest-batch; existing records are not measured again")
    if len(chosen.words) > 1 or any("=" in word for word in chosen.words):
        raise UserError("best: takes one folder of records; name=value goes with --largest-batch")
    return _show_best(next(iter(chosen.words), None), _limit(chosen.latency_ms), context)


def _limit(latency_ms: str | None) -> float | None:
    try:
        return None if latency_ms is None else float(latency_ms)
    except ValueError as error:
        raise UserError(f"--latency-ms={latency_ms}: should be a number of milliseconds") from error


def _show_best(folder: str | None, limit_ms: float | None, context: Context) -> int:
    from accelbench.report import read as sweeps
    from accelbench.report.tables import best_of_each
    from accelbench.report.tables.on_terminal import rendered
    from accelbench.schema.text import clean
    from accelbench.settings import params
    from accelbench.sweep import answer

    place, console = workplace(), context.console
    name, which = (folder, "") if folder else default_folder(place)
    if which:
        console.print(clean(which), markup=False, soft_wrap=True)
    read = sweeps.read_all(place.root / name, params.costs(place.project))
    found, outside = best_of_each.of_each(read, limit_ms)
    if not found:
        raise UserError("best: no ok cell" + ("" if limit_ms is None else f" is within {limit_ms:g} ms"))
    for each in found:
        console.print(answer.sentence(each.found), soft_wrap=not console.is_terminal)
        if (table := each.table()) is not None:
            console.print(rendered(table))
    notes = [note for sweep in read for note in sweep.notes]
    missing = [f"{workload}: no cell is within {limit_ms:g} ms" for workload in outside]
    for note in [*missing, best_of_each.NOTE, *notes]:
        console.print(note, style="dim", markup=False)
    return 0


COMMAND = Command(
    name="best",
    summary="say what to use, by throughput, latency, energy and money; or find the largest batch that fits",
    add_flags=_add_flags,
    run=_run,
    usage="[--latency-ms MS] [folder]\n       accelbench best --largest-batch [-v] name=value ...",
    description="With --largest-batch, takes the settings of one cell instead of a folder, as `accelbench run` does.",
    takes_settings=True,
)
