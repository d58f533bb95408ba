"""The data stage: obtains and verifies a data set, converts it once, and describes it in its manifest."""

import argparse
import hashlib
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.data import manifest, registry
from accelbench.data.arrays import SPLITS, load_split
from accelbench.data.obtain import DataSet, Obtained, Target
from accelbench.errors import DataError, UserError
from accelbench.lock import hold
from accelbench.project import MANIFEST, Workplace, pipelines_place, resolved
from accelbench.schema.serialize import write_json

SOURCES = "auto, download, or the path of the original files"
MAX_SETTING, MAX_SIDE = 1_000_000, 4096
HISTOGRAM_IMAGES = 256


def main(settings_of: Callable[[Path | None, str], Mapping[str, Any]], argv: Sequence[str] | None = None) -> int:
    """The stage that prepares a data set; returns its exit status."""
    parser = argparse.ArgumentParser(description="Prepare a data set of params.yaml into data/<name>/.")
    parser.add_argument("name", help="the data set, such as mnist")
    name = parser.parse_args(argv).name
    try:
        place = pipelines_place()
        registry.find(name)  # before params.yaml is asked: its choices are fewer
        obtained = prepare(place, name, settings_of(place.project, name))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nInterrupted; data/{name} is as it was.", file=sys.stderr)
        return 130
    if obtained.stand_in_reason:
        print(_warning(name, obtained), file=sys.stderr)
    counts = manifest.read_counts(place.data / name)
    sizes = ", ".join(f"{num:,} {split}" for split, num in counts.items()) or "no"
    refused = f", files refused: {len(obtained.refused):,} (see {MANIFEST})" if obtained.refused else ""
    print(f"data/{name}: {sizes} images{refused} ({obtained.source})")
    return 0


def prepare(place: Workplace, name: str, given: Mapping[str, Any]) -> Obtained:
    """Writes `name`/ below `place.data`: {train,test}_{images,labels}.npy and manifest.json; returns what it wrote.

    `given` are its settings in params.yaml, such as its `source`.

    Raises:
        UserError: params.yaml asks for what is not there.
        DataError: the data is missing, incomplete or altered, or the disk is full.
    """
    data_set = registry.find(name)
    source, settings = _settings(name, data_set, given)

    def write(folder: Path) -> Obtained:
        try:
            return data_set.obtain(name, source, place.cache, Target(folder, settings))
        except DataError as error:
            raise DataError(f"data.{name}.source={source}: {error}\nChoose from: {SOURCES}.") from error

    return replaced(place, name, write)


def replaced(place: Workplace, name: str, write: Callable[[Path], Obtained]) -> Obtained:
    """Replaces the prepared data set `name` by one whose arrays `write` writes into an empty folder."""
    with replacing(place.data / name) as folder:
        obtained = write(folder)
        describe(obtained, name, folder)
    return obtained


def describe(obtained: Obtained, name: str, folder: Path) -> None:
    """Writes the manifest of the arrays in `folder` beside them."""
    described: dict[str, Any] = {
        "name": name,
        "source": obtained.source,
        "stand_in": obtained.stand_in_reason is not None,
        "files": {path.name: _describe_file(path) for path in sorted(folder.glob("*.npy"))},
        "counts": {},
        "refused": list(obtained.refused),
        "division": obtained.division,
    }
    if described["files"]:
        counts = {split: _counts(load_split(folder, split).labels, obtained.classes) for split in SPLITS}
        described |= {"counts": counts, "normalisation": normalisation(load_split(folder, "train").images)}
    write_json(folder / MANIFEST, {**described, "digest": manifest.digest_of(described)})


def normalisation(images: NDArray[np.uint8]) -> dict[str, list[float]]:
    """Mean and standard deviation of pixels / 255, a value per channel.

    Computed on integers, so that every machine gets the same result to the last bit.
    """
    mean, std = [], []
    for histogram in _histograms(images):
        num = sum(histogram)
        total = sum(value * count for value, count in enumerate(histogram))
        squares = sum(value * value * count for value, count in enumerate(histogram))
        mean.append(total / (255 * num))
        std.append(math.sqrt((num * squares - total * total) / (255 * num) ** 2))
    return {"mean": mean, "std": std}


def _histograms(images: NDArray[np.uint8]) -> list[list[int]]:
    num_channels = 1 if images.ndim == 3 else images.shape[-1]
    counts = np.zeros((num_channels, 256), np.int64)
    for start in range(0, len(images), HISTOGRAM_IMAGES):
        several = images[start : start + HISTOGRAM_IMAGES].reshape(-1, num_channels)
        counts += [np.bincount(several[:, channel], minlength=256) for channel in range(num_channels)]
    rows: list[list[int]] = counts.tolist()
    return rows


def _warning(name: str, obtained: Obtained) -> str:
    if obtained.part:
        return f"warning: data/{name} is NOT {name} but {obtained.source} (data.{name}.max_images)."
    return (
        f"warning: data/{name} is NOT {name} but a {obtained.source}.\nWhat was tried: {obtained.stand_in_reason}\n"
        f"For the set itself, set data.{name}.source to download or to the path of the original files."
    )


def _settings(name: str, data_set: DataSet, given: Mapping[str, Any]) -> tuple[str, dict[str, int]]:
    own = data_set.settings
    choices = [*(["source"] if data_set.home else []), *own]
    unknown = set(given) - set(choices)
    if unknown:
        known = f"Choose from: {', '.join(choices)}." if choices else "It has none."
        raise UserError(f"data.{name}: unknown key {', '.join(sorted(unknown))}. {known}")
    source = given.get("source") if data_set.home else "auto"
    if not isinstance(source, str) or not source.strip():
        raise UserError(f"data.{name}.source={source}: should be a word or a path. Choose from: {SOURCES}.")
    settings = {key: given.get(key, default) for key, default in own.items()}
    for key, value in settings.items():
        most = MAX_SIDE if key == "image_size" else MAX_SETTING
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise UserError(f"data.{name}.{key}={value}: should be a whole number from 1 to {most}")
    return source, settings


def _describe_file(path: Path) -> dict[str, Any]:
    array = np.load(path, mmap_mode="r")
    with path.open("rb") as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    return {"shape": list(array.shape), "dtype": array.dtype.name, "sha256": checksum}


def _counts(labels: NDArray[np.uint8], classes: Sequence[str]) -> dict[str, int]:
    return dict(zip(classes, np.bincount(labels, minlength=len(classes)).tolist(), strict=True))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives an empty folder to fill, which replaces `path` if the block ends without an error.

    One folder can't be renamed over another in one step, so for a moment `path` does not exist. If the process is
    killed then, the next call restores the old folder.

    Raises:
        BusyError: another process is replacing the same folder.
        DataError: the folder can't be written.
    """
    path = resolved(path)
    new, old = (path.with_name(f".{path.name}.{word}") for word in ("new", "old"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with hold(path.with_name(f".{path.name}.lock"), f"{path}: another process that prepares it"):
            _recover(path, new, old)
            if path.exists() and not path.is_dir():
                raise DataError(f"{path}: a file is in the way; move it")
            new.mkdir()
            try:
                yield new
                _swap(path, new, old)
            finally:
                _recover(path, new, old)
    except OSError as error:
        raise DataError(f"{path}: not written ({error})") from error


def _recover(path: Path, new: Path, old: Path) -> None:
    if old.exists() and not path.exists():
        old.rename(path)
    for leftover in (new, old):
        if leftover.exists():
            shutil.rmtree(leftover)


def _swap(path: Path, new: Path, old: Path) -> None:
    for file in [*new.rglob("*"), new]:
        _sync(file)
    if path.exists():
        path.rename(old)
    new.rename(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
