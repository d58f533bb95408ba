"""`accelbench report`: the page of a folder of records."""

from argparse import Namespace
from collections.abc import Sequence

from accelbench.commands.command import Command, Context, flag
from accelbench.commands.records import FOLDER, PRICE, check_devices, costs, default_folder, is_results, report_folder
from accelbench.errors import UserError
from accelbench.project import workplace


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.report.build import build
    from accelbench.report.read import Sweep
    from accelbench.settings.params import for_report
    from accelbench.sinks.delivery import relate

    place = workplace()
    prices = costs(chosen, place.project)
    name = chosen.folder or default_folder(place, context)
    if is_results(place, name) and chosen.price_per_hour is not None:
        raise UserError("--price-per-hour: not for results/, whose report DVC keeps: set costs: in params.yaml")
    read: list[Sweep] = []

    def check(sweeps: Sequence[Sweep]) -> None:
        check_devices(chosen, context, sweeps)
        read.extend(sweeps)

    settings = for_report(place, place.root / name) | {"costs": prices}
    page = build(place.root / name, report_folder(place, name), say=context.say, check=check, **settings)
    context.say(f"Report: {page}")
    if loss := relate(place.store, [each.processes for each in read], page):
        context.say(loss)
    return 0


COMMAND = Command(
    name="report",
    summary="build the report of results/, or of a folder under runs/",
    run=_run,
    flags=(flag("folder", nargs="?", help=FOLDER), PRICE),
    description="The report of results/ is written to report/, any other to report/ in its folder: see index.html.",
)
