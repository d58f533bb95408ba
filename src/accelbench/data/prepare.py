"""Obtains and verifies a data set, converts it once, and describes it in its manifest."""

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from accelbench.data import manifest
from accelbench.data.arrays import SPLITS, load_split
from accelbench.data.obtain import DataSet, Obtained, Target, find
from accelbench.errors import DataError, UserError
from accelbench.lock import hold
from accelbench.project import MANIFEST, Workplace, resolved
from accelbench.schema.serialize import write_json

SOURCES = "auto, download, or the path of the original files"
MAX_SETTING, MAX_SIDE = 1_000_000, 4096


def prepare(place: Workplace, name: str, given: Mapping[str, Any]) -> Obtained:
    """Writes `name`/ below `place.data`: {train,test}_{images,labels}.npy and manifest.json; returns what it wrote.

    `given` are its settings in params.yaml, such as its `source`. Raises UserError, of which DataError is one.
    """
    data_set = find(name)
    source, settings = _settings(name, data_set, given)

    def write(folder: Path) -> Obtained:
        try:
            return data_set.obtain(name, source, place.cache, Target(folder, settings))
        except DataError as error:
            raise DataError(f"data.{name}.source={source}: {error}\nChoose from: {SOURCES}.") from error

    return replaced(place, name, write)


def summary(folder: Path, name: str, obtained: Obtained) -> str:
    """A line about the data set that was prepared in `folder`."""
    sizes = ", ".join(f"{num:,} {split}" for split, num in manifest.read_counts(folder).items()) or "no"
    refused = f", files refused: {len(obtained.refused):,} (see {MANIFEST})" if obtained.refused else ""
    return f"data/{name}: {sizes} images{refused} ({obtained.source})"


def warning(name: str, obtained: Obtained) -> str | None:
    """Says that a stand-in or a part of the set was prepared; None if it is the set itself."""
    if obtained.stand_in_reason is None:
        return None
    return (
        f"warning: data/{name} is NOT {name} but {obtained.source}.\nThe reason: {obtained.stand_in_reason}\n"
        f"For the set itself, set data.{name}.source to download or to the path of the original files."
    )


def replaced(place: Workplace, name: str, write: Callable[[Path], Obtained]) -> Obtained:
    """Replaces the prepared data set `name` by one whose arrays `write` writes into an empty folder."""
    with replacing(place.data / name) as folder:
        obtained = write(folder)
        describe(obtained, name, folder)
    return obtained


def describe(obtained: Obtained, name: str, folder: Path) -> None:
    """Writes the manifest of the arrays in `folder` beside them."""
    files: dict[str, Any] = {}
    for path in sorted(folder.glob("*.npy")):
        array = np.load(path, mmap_mode="r")
        with path.open("rb") as file:
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
        files[path.name] = {"shape": list(array.shape), "dtype": array.dtype.name, "sha256": checksum}
    described: dict[str, Any] = {
        "name": name,
        "source": obtained.source,
        "stand_in": obtained.stand_in_reason is not None,
        "files": files,
        "counts": {},
        "refused": list(obtained.refused),
        "division": obtained.division,
    }
    for split in SPLITS if files else ():
        nums = np.bincount(load_split(folder, split).labels, minlength=len(obtained.classes)).tolist()
        described["counts"][split] = dict(zip(obtained.classes, nums, strict=True))
    write_json(folder / MANIFEST, {**described, "digest": manifest.digest_of(described)})


def _settings(name: str, data_set: DataSet, given: Mapping[str, Any]) -> tuple[str, dict[str, int]]:
    choices = [*(["source"] if data_set.home else []), *data_set.settings]
    if unknown := set(given) - set(choices):
        raise UserError(f"data.{name}: unknown key {', '.join(sorted(unknown))}. It has: {', '.join(choices) or '-'}.")
    source = given.get("source") if data_set.home else "auto"
    if not isinstance(source, str) or not source.strip():
        raise UserError(f"data.{name}.source={source}: should be a word or a path. Choose from: {SOURCES}.")
    settings = {key: given.get(key, default) for key, default in data_set.settings.items()}
    for key, value in settings.items():
        most = MAX_SIDE if key == "image_size" else MAX_SETTING
        if type(value) is not int or not 1 <= value <= most:
            raise UserError(f"data.{name}.{key}={value}: should be a whole number from 1 to {most}")
    return source, settings


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives an empty folder to fill, which replaces `path` if the block ends without an error.

    One folder can't be renamed over another in one step: a process that is killed in that moment leaves none. Raises
    BusyError: another process is replacing the same folder; DataError: the folder can't be written.
    """
    path = resolved(path)
    new = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with hold(path.with_name(f".{path.name}.lock"), f"{path}: another process that prepares it"):
            if path.exists() and not path.is_dir():
                raise DataError(f"{path}: a file is in the way; move it")
            shutil.rmtree(new, ignore_errors=True)  # of a process that was killed
            new.mkdir()
            try:
                yield new
                if path.exists():
                    shutil.rmtree(path)
                new.rename(path)
            finally:
                shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise DataError(f"{path}: not written ({error})") from error
