"""Prepares the data set of a sweep if it is missing, so that a first cell needs no other command."""

from pathlib import Path

from rich.console import Console

from accelbench.data.arrays import how_to_prepare
from accelbench.errors import UserError
from accelbench.project import MANIFEST
from accelbench.settings.params import data_settings


def prepare_missing(root: Path, name: str, console: Console) -> None:
    """Prepares data/`name` as `dvc repro data@NAME` does, unless it is there.

    Args:
        root: the project's folder.
        name: the data set.
        console: where a line says so, since it may take a download.

    Raises:
        UserError: params.yaml does not name the data set, or asks for what is not there.
        DataError: the data can't be obtained.
    """
    if (root / "data" / name / MANIFEST).exists():
        return
    from accelbench.data.prepare import prepare

    settings = data_settings(root, name)
    console.print(f"Preparing data/{name}, once.", highlight=False)
    try:
        prepare(root, name, settings)
    except ModuleNotFoundError as error:  # the environments of Keras on a GPU and a TPU have no torchvision
        problem = f"data={name}: not prepared, and {error.name} is not installed in this environment"
        raise UserError(f"{problem}; in the main one, {how_to_prepare(root / 'data' / name)}") from error
