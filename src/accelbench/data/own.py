"""Data of the user's own: a folder of pictures by class, or an .npz file with arrays of images and labels."""

from dataclasses import dataclass, replace
from pathlib import Path

from accelbench.data.npz import read as read_arrays
from accelbench.data.obtain import Obtained
from accelbench.data.pictures import Folder, convert
from accelbench.data.prepare import replaced
from accelbench.data.source import listed
from accelbench.errors import DataError, UserError
from accelbench.project import MANIFEST, Workplace, resolved
from accelbench.schema.serialize import read_json, write_json
from accelbench.schema.workload import DataSpec

IMAGE_SIZE = "image_size"  # the argument with the height and width of a folder's images


@dataclass(frozen=True)
class Enclosed(Folder):
    """The files below a folder, without links that lead out of it."""

    def read(self, name: str) -> bytes:
        """One file's bytes."""
        if not self._is_inside(name):
            raise DataError("a link out of the folder")
        return super().read(name)

    def _is_inside(self, name: str) -> bool:
        return resolved(self.path / name).is_relative_to(resolved(self.path))


def is_prepared(place: Workplace, data: DataSpec) -> bool:
    """Whether the arrays are those of the user's files, as told by their names, sizes and times of change.

    Raises:
        UserError: the files can't be listed.
    """
    folder, listing = place.data / data.name, _listing(place, data)
    try:
        return (folder / MANIFEST).exists() and read_json(listing) == _files(data)
    except (OSError, ValueError):
        return False


def prepare(place: Workplace, data: DataSpec) -> Obtained:
    """Writes `data.name`/ below `place.data`, as `prepare.prepare` does for the sets of params.yaml.

    Raises:
        DataError: the files are missing or damaged, or make no data set.
    """
    assert data.path is not None, "data of the user's own have a path"
    path = Path(data.path)
    files = _files(data)  # before they are read: if they change meanwhile, they are read again the next time

    def write(folder: Path) -> Obtained:
        try:
            if path.is_dir():
                return _read_folder(path, data.args[IMAGE_SIZE], folder)
            return read_arrays(path, folder)
        except DataError as error:
            raise DataError(f"data.path={path}: {error}") from error

    obtained = replaced(place, data.name, write)
    write_json(_listing(place, data), files)
    return obtained


def _read_folder(path: Path, side: int, folder: Path) -> Obtained:
    found = convert(Enclosed(path), None, side, folder, keep_encoded=True)
    return replace(found, source=f"pictures of the folder {path.name}")


def _listing(place: Workplace, data: DataSpec) -> Path:
    return place.data / ".sources" / f"{data.name}.json"


def _files(data: DataSpec) -> object:
    assert data.path is not None, "data of the user's own have a path"
    try:
        return listed(Path(data.path), data.path)
    except OSError as error:
        raise UserError(f"data.path={data.path}: not readable ({error})") from error
