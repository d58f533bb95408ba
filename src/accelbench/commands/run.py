"""`accelbench run`, the default command: measures one cell, or every cell of a sweep."""

from argparse import Namespace

from accelbench.commands.command import VERBOSE, Command, Context, flag
from accelbench.commands.overview import settings
from accelbench.project import shown


def _run(chosen: Namespace, context: Context) -> int:
    words = ["-m"] * chosen.multirun + chosen.words + [VERBOSE] * chosen.verbose
    if chosen.cfg is not None or chosen.resolve:
        from accelbench.settings.compose import compose

        compose([*(["--cfg", chosen.cfg] if chosen.cfg else []), *["--resolve"] * chosen.resolve, *words])
        return 0
    from accelbench.isolation.hosts import Hosts

    with Hosts() as hosts:
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

        result = dispatch.run(cells, options, context.console, hosts=hosts, show=show)
    if len(cells) == 1:
        terminal.show_places(result.links, context.console)
        context.console.print()
    result.check_request()
    return 1 if result.num_unexpected else 0


COMMANDS = (
    Command(
        name="run",
        summary="measure one cell, or with -m every combination of lists",
        run=_run,
        flags=(
            flag("-m", "--multirun", help="measure every combination of listed values"),
            flag("-v", "--verbose", help="show what the cells' libraries print, too"),
            flag("--cfg", metavar="job", help="print all settings of one run, and measure nothing"),
            flag("--resolve", help="with --cfg: print values instead of references to them"),
        ),
        epilog=settings,
        takes_settings=True,
        has_hydra_words=True,
    ),
)
