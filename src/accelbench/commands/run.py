"""`accelbench run`, the default command: measures one cell, or every cell of a sweep."""

from argparse import Namespace

from accelbench.commands.command import VERBOSE, Command, Context
from accelbench.commands.overview import settings
from accelbench.project import shown
from accelbench.settings.parser import Parser


def _add_flags(parser: Parser) -> None:
    parser.add_argument("-m", "--multirun", action="store_true", help="measure every combination of listed values")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the cells' libraries print, too")
    parser.add_argument("--cfg", metavar="job", help="print all settings of one run, and measure nothing")
    parser.add_argument("--resolve", action="store_true", help="with --cfg: print values instead of references to them")


def _run(chosen: Namespace, context: Context) -> int:
    words = ["-m"] * chosen.multirun + chosen.words + [VERBOSE] * chosen.verbose
    if chosen.cfg is not None or chosen.resolve:
        return _print_settings(chosen, words)
    from accelbench.sweep import early

    with early.hosts(words) as hosts:
        # Imported while the host starts.
        from accelbench.cluster import dispatch
        from accelbench.settings.compose import cells_of, compose
        from accelbench.sweep import run as sweep
        from accelbench.sweep import terminal

        cells, options = cells_of(compose(words))

        def show(result: sweep.SweepResult) -> None:
            folder = shown(result.folder)
            if len(cells) == 1:
                (record,) = result.records
                terminal.show_card(record, f"{folder}/{record.name}.json", context.console)
            else:
                terminal.conclude(result.records, result.folder, context.console)
                terminal.show_answer(result.records, folder, context.console)

        result = dispatch.run(cells, options, context.console, context.out, hosts=hosts, show=show)
    if len(cells) == 1:
        terminal.show_places(result.links, context.console)
        context.console.print()
    if context.out is None:  # the pipeline goes on: its report says why the cells failed
        result.check_request()
    return 1 if result.num_unexpected else 0


def _print_settings(chosen: Namespace, words: list[str]) -> int:
    from accelbench.settings.compose import compose

    flags = [] if chosen.cfg is None else ["--cfg", chosen.cfg]
    compose([*flags, *["--resolve"] * chosen.resolve, *words])
    return 0


COMMAND = Command(
    name="run",
    summary="measure one cell, or with -m every combination of lists",
    add_flags=_add_flags,
    run=_run,
    epilog=settings,
    takes_settings=True,
    has_hydra_words=True,
)
