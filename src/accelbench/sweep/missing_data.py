"""Prepares the data set of a sweep if it is missing, so that a first cell needs no other command."""

from rich.console import Console

from accelbench.project import MANIFEST, Workplace, shown
from accelbench.schema.vocab import MODULE, RANDOM
from accelbench.schema.workload import DataSpec
from accelbench.settings.params import data_settings


def prepare_missing(place: Workplace, data: DataSpec, console: Console) -> None:
    """Prepares a data set as `dvc repro data@NAME` does, unless it is there or a DataModule makes it.

    The user's own data are prepared again if they changed. A line says so, since it may take a download.

    Raises:
        UserError: params.yaml does not name the data set, or asks for what is not there.
        DataError: the data can't be obtained.
    """
    folder = place.data / data.name
    if data.name == MODULE or (not data.path and (folder / MANIFEST).exists()):
        return
    from accelbench.data import own, prepare  # they take long to import

    if data.path and own.is_prepared(place, data):
        return
    settings = {} if data.path else data_settings(place.project, data.name)
    if data.name != RANDOM:  # which has no files, but a manifest
        console.print(f"Preparing {shown(folder)}, once.", highlight=False, soft_wrap=True)
    if data.path:
        own.prepare(place, data)
    else:
        prepare.prepare(place, data.name, settings)
