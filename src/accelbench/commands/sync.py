"""`accelbench sync`: delivers the records that MLflow missed."""

from argparse import Namespace

from accelbench import project
from accelbench.commands.command import Command, Context
from accelbench.schema.text import clean
from accelbench.settings.parser import Parser


def _add_flags(parser: Parser) -> None:
    """Declares nothing: `sync` takes no flags."""


def _run(chosen: Namespace, context: Context) -> int:
    from accelbench.sinks.sync import sync

    place = project.workplace()
    done = sync(place.store, place.record_folders)
    context.console.print(clean(str(done)), markup=False, soft_wrap=True)
    return 0


COMMAND = Command(name="sync", summary="deliver the records that MLflow missed", add_flags=_add_flags, run=_run)
