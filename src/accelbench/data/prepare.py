"""Obtains a data set, converts it to arrays, and writes a manifest that describes the arrays.

params.yaml names the data set, or the user's own files contain it.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from accelbench.data.arrays import (
    SPLITS,
    Arrays,
    Obtained,
    digest_of,
    label_type,
    load_split,
    read_counts,
    save_split,
)
from accelbench.data.pictures import DAMAGED, MIN_PICTURES, Picture, convert, divide
from accelbench.data.sets import DataSet, find, listed
from accelbench.errors import DataError, UserError, did_you_mean
from accelbench.lock import hold
from accelbench.project import MANIFEST, Workplace, resolved
from accelbench.schema.cell import DataSpec
from accelbench.schema.serialize import read_json, sha256_of, write_json

SOURCES = "auto, download, or the path of the original files"
MAX_SETTING = 1_000_000
MAX_SIDE = 4096
IMAGE_SIZE = "image_size"  # setting with the height and width of the images of a folder
EXPECTED = (
    "the file should have the arrays images and labels, or x_train, y_train, x_test and y_test. Images should be uint8 "
    "of shape (n, height, width) or (n, height, width, 3). Labels should be integers of shape (n)"
)


def prepare(place: Workplace, name: str, asked: Mapping[str, Any]) -> Obtained:
    """Writes the data set into the folder `name` of `place.data`. Returns the description of the data set.

    The files are manifest.json and the arrays {train,test}_{images,labels}.npy. A set of pictures also has the arrays
    of `Encoded`. The set `random` has only manifest.json.

    Args:
        asked: the data set's settings in params.yaml, such as `source`.

    Raises UserError: a setting is wrong. Raises DataError: no data could be read.
    """
    data_set = find(name)
    source, settings = _checked(name, data_set, asked)

    def write(folder: Path) -> Obtained:
        try:
            return data_set.obtain(name, source, place.cache, folder, settings)
        except DataError as error:
            raise DataError(f"data.{name}.source={source}: {error}\nChoose from: {SOURCES}.") from error

    return replaced(place, name, write)


def summary(folder: Path, name: str, obtained: Obtained) -> str:
    """Returns a line with the number of images and their source, such as `data/x: 80 train, 20 test images (...)`."""
    sizes = ", ".join(f"{num:,} {split}" for split, num in read_counts(folder).items()) or "no"
    refused = f", files refused: {len(obtained.refused):,} (see {MANIFEST})" if obtained.refused else ""
    return f"data/{name}: {sizes} images{refused} ({obtained.source})"


def warning(name: str, obtained: Obtained) -> str | None:
    """Returns a warning if only a stand-in or a part of the data set was prepared. Otherwise returns None."""
    if obtained.stand_in_reason is None:
        return None
    return (
        f"warning: data/{name} is NOT {name} but {obtained.source}.\nThe reason: {obtained.stand_in_reason}\n"
        f"For the real data set, set data.{name}.source to download or to the path of the original files."
    )


def describe(obtained: Obtained, name: str, folder: Path) -> None:
    """Writes the manifest of the arrays in `folder` into `folder`."""
    files: dict[str, Any] = {}
    for path in sorted(folder.glob("*.npy")):
        array = np.load(path, mmap_mode="r")
        files[path.name] = {"shape": list(array.shape), "dtype": array.dtype.name, "sha256": sha256_of(path)}
    counts = {}
    for split in SPLITS if files else ():
        nums = np.bincount(load_split(folder, split).labels, minlength=len(obtained.classes)).tolist()
        counts[split] = dict(zip(obtained.classes, nums, strict=True))
    described = {
        "name": name,
        "source": obtained.source,
        "stand_in": obtained.stand_in_reason is not None,
        "files": files,
        "counts": counts,
        "refused": list(obtained.refused),
    }
    write_json(folder / MANIFEST, {**described, "digest": digest_of(described)})


def _checked(name: str, data_set: DataSet, asked: Mapping[str, Any]) -> tuple[str, dict[str, int]]:
    """Checks the settings. Returns the source and a dict of all other settings. Missing settings get their defaults."""
    choices = [*data_set.settings, *(["source"] if data_set.home else [])]
    for key, value in asked.items():
        flag = f"data.{name}.{key}"
        if key not in choices:
            has = ", ".join(choices) or "none"
            raise UserError(f"{flag}: unknown key.{did_you_mean(key, choices)} Choose from: {has}.")
        most = MAX_SIDE if key == IMAGE_SIZE else MAX_SETTING
        if key == "source" and not (isinstance(value, str) and value.strip()):
            raise UserError(f"{flag}={value}: should be a word or a path. Choose from: {SOURCES}.")
        if key != "source" and not (type(value) is int and 1 <= value <= most):
            raise UserError(f"{flag}={value}: should be a whole number from 1 to {most}")
    settings = {**data_set.settings, **asked}
    return settings.pop("source", "auto"), settings


def replaced(place: Workplace, name: str, write: Callable[[Path], Obtained]) -> Obtained:
    """Replaces the prepared data set `name`. `write` writes the new arrays into an empty folder.

    A folder can't replace another folder in one step. So the old folder is removed before the new one is renamed. If
    the process is killed between these two steps, the data set is missing.

    Raises UserError: another process is replacing the same folder. Raises DataError: a file can't be read or written.
    """
    path = resolved(place.data / name)
    new = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with hold(path.with_name(f".{path.name}.lock"), f"{path}: another process that prepares it"):
            shutil.rmtree(new, ignore_errors=True)  # left by a killed process
            new.mkdir()
            try:
                obtained = write(new)
                describe(obtained, name, new)
                shutil.rmtree(path, ignore_errors=True)
                new.rename(path)
            finally:
                shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise DataError(f"{path}: not prepared ({error})") from error
    return obtained


def is_own_prepared(place: Workplace, data: DataSpec) -> bool:
    """Is true if the arrays were made from the user's present files: names, sizes and times of change are the same."""
    try:
        return (place.data / data.name / MANIFEST).exists() and read_json(_listing(place, data)) == _files(
            data
        )
    except (OSError, ValueError):
        return False


def prepare_own(place: Workplace, data: DataSpec) -> Obtained:
    """Converts the user's files to the data set `data.name`. Raises DataError if the files can't be converted."""
    # Listed before the conversion: files that change during it will be converted again next time.
    files = _files(data)
    path = Path(str(data.path))

    def write(folder: Path) -> Obtained:
        try:
            if path.is_dir():
                obtained = convert(path, None, data.args[IMAGE_SIZE], folder)
                return replace(obtained, source=f"pictures of the folder {path.name}")
            return _write_arrays(path, folder)
        except DataError as error:
            raise DataError(f"data.path={path}: {error}") from error

    obtained = replaced(place, data.name, write)
    write_json(_listing(place, data), files)
    return obtained


def _listing(place: Workplace, data: DataSpec) -> Path:
    return place.data / ".sources" / f"{data.name}.json"


def _files(data: DataSpec) -> object:
    return listed(Path(str(data.path)), str(data.path), "data.path")


def _write_arrays(path: Path, folder: Path) -> Obtained:
    train, test = _read_arrays(path)
    classes = np.union1d(train.labels, test.labels)
    if len(classes) < 2:
        raise DataError(f"all labels are {classes.tolist()}: a data set needs at least two classes")
    missing = np.setxor1d(train.labels, test.labels)
    if len(missing):
        raise DataError(
            f"class {missing[0]} has no images for training or for testing (it needs {MIN_PICTURES})"
        )
    for split, arrays in (("train", train), ("test", test)):
        labels = np.searchsorted(classes, arrays.labels).astype(label_type(len(classes)))
        save_split(folder, split, Arrays(arrays.images, labels))
    return Obtained(classes=[str(name) for name in classes.tolist()], source=f"arrays of {path.name}")


def _read_arrays(path: Path) -> tuple[Arrays, Arrays]:
    """Returns the training set and the test set. Each set has images and labels."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            names = set(arrays.files)
            if names >= {"x_train", "y_train", "x_test", "y_test"}:
                return _pair(arrays, "x_train", "y_train"), _pair(arrays, "x_test", "y_test")
            if names >= {"images", "labels"}:
                every = _pair(arrays, "images", "labels")
                rows = divide(
                    Picture(f"{row:012}", int(label), None) for row, label in enumerate(every.labels)
                )
                train, test = ([int(row.name) for row in rows[split]] for split in SPLITS)
                return every.part(train), every.part(test)
    except (*DAMAGED, OSError, TypeError) as error:
        raise DataError(f"not readable as an .npz file of arrays ({error})") from error
    raise DataError(f"its arrays are {', '.join(sorted(names)[:8]) or 'none'}; {EXPECTED}")


def _pair(arrays: Mapping[str, Any], of_images: str, of_labels: str) -> Arrays:
    images = np.asanyarray(arrays[of_images])
    labels = np.asanyarray(arrays[of_labels])
    if images.shape[3:] == (1,):
        images = images[..., 0]  # grey images have no axis of channels
    is_image = images.dtype == np.uint8 and images.size and images.shape[3:] in ((), (3,))
    is_label = labels.dtype.kind in "iu" and labels.size == len(images)
    if images.ndim < 3 or not is_image or not is_label:
        described = f"{of_images} is {images.dtype} of the shape {images.shape}"
        raise DataError(f"{described}, {of_labels} is {labels.dtype} of the shape {labels.shape}; {EXPECTED}")
    return Arrays(images, labels.reshape(-1))
