"""The stages that prepare data and describe the machine. They import no measuring code, so that they start fast."""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from accelbench import project
from accelbench.data import sets
from accelbench.schema.serialize import write_json
from accelbench.settings import params

if TYPE_CHECKING:
    from rich.console import Console


def list_source(_: "Console", name: str) -> None:
    """Writes data/.sources/<name>.json, the files of the data set's source."""
    place = project.pipelines_place()
    source = str(params.data_settings(place.project, name).get("source"))
    _write_if_changed(place.data / ".sources" / f"{name}.json", sets.source_files(place.cache, name, source))


def prepare_data(_: "Console", name: str) -> None:
    """Writes data/<name>/."""
    from accelbench.data import prepare  # not at the top: it imports NumPy

    place = project.pipelines_place()
    sets.find(name)  # refuses an unknown name; the message lists all data sets
    obtained = prepare.prepare(place, name, params.data_settings(place.project, name))
    if warning := prepare.warning(name, obtained):
        print(warning, file=sys.stderr)
    print(prepare.summary(place.data / name, name, obtained))


def write_environment(_: "Console") -> None:
    """Writes environment.json if the fingerprint has changed. DVC always runs this stage; sweeps depend on the file."""
    from accelbench.grid.fingerprint import fingerprint  # not at the top: the other stages do not need it

    _write_if_changed(Path(project.ENVIRONMENT), fingerprint())  # DVC runs a stage in the folder of its dvc.yaml


def _write_if_changed(path: Path, value: object) -> None:
    with suppress(OSError, ValueError):
        if json.loads(path.read_text()) == value:
            return
    write_json(path, value)
