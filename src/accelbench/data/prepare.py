"""Obtains a data set of params.yaml or of the user's own, converts it once, and describes it in its manifest."""

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.data.arrays import SPLITS, Arrays, digest_of, label_type, load_split, read_counts, save_split
from accelbench.data.obtain import DataSet, Obtained, Target, find, listed
from accelbench.data.pictures import DAMAGED, MIN_PICTURES, Folder, Picture, convert, divide
from accelbench.errors import DataError, UserError, did_you_mean
from accelbench.lock import hold
from accelbench.project import MANIFEST, Workplace, resolved
from accelbench.schema.serialize import read_json, sha256_of, write_json
from accelbench.schema.workload import DataSpec

SOURCES = "auto, download, or the path of the original files"
MAX_SETTING, MAX_SIDE = 1_000_000, 4096
IMAGE_SIZE = "image_size"  # the argument with the height and width of a folder's images
MAX_SHARED = 0.01  # of the test images: public sets have a few that are training images, too
EXPECTED = (
    "expected are images and labels, or x_train, y_train, x_test, y_test: images are uint8 of the shape (n, height, "
    "width) or (n, height, width, 3), labels are whole numbers of the shape (n)"
)


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
    sizes = ", ".join(f"{num:,} {split}" for split, num in read_counts(folder).items()) or "no"
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


def describe(obtained: Obtained, name: str, folder: Path) -> None:
    """Writes the manifest of the arrays in `folder` beside them."""
    files: dict[str, Any] = {}
    for path in sorted(folder.glob("*.npy")):
        array = np.load(path, mmap_mode="r")
        files[path.name] = {"shape": list(array.shape), "dtype": array.dtype.name, "sha256": sha256_of(path)}
    described: dict[str, Any] = {
        "name": name,
        "source": obtained.source,
        "stand_in": obtained.stand_in_reason is not None,
        "files": files,
        "counts": {},
        "refused": list(obtained.refused),
    }
    for split in SPLITS if files else ():
        nums = np.bincount(load_split(folder, split).labels, minlength=len(obtained.classes)).tolist()
        described["counts"][split] = dict(zip(obtained.classes, nums, strict=True))
    shared = _test_in_training(folder) if files else 0.0
    if shared > MAX_SHARED:
        described["test_in_training"] = shared
    write_json(folder / MANIFEST, {**described, "digest": digest_of(described)})


def _test_in_training(folder: Path) -> float:
    """The share of the test images whose bytes are those of a training image."""
    train, test = (
        [hashlib.blake2b(image, digest_size=16).digest() for image in load_split(folder, split).images]
        for split in SPLITS
    )
    return len(set(test) & set(train)) / max(1, len(test))


def _settings(name: str, data_set: DataSet, given: Mapping[str, Any]) -> tuple[str, dict[str, int]]:
    choices = [*(["source"] if data_set.home else []), *data_set.settings]
    if unknown := sorted(set(given) - set(choices)):
        meant, known = did_you_mean(unknown[0], choices), ", ".join(choices) or "-"
        raise UserError(f"data.{name}: unknown key {', '.join(unknown)}.{meant} It has: {known}.")
    source = given.get("source") if data_set.home else "auto"
    if not isinstance(source, str) or not source.strip():
        raise UserError(f"data.{name}.source={source}: should be a word or a path. Choose from: {SOURCES}.")
    settings = {**data_set.settings, **given}
    settings.pop("source", None)
    for key, value in settings.items():
        most = MAX_SIDE if key == IMAGE_SIZE else MAX_SETTING
        if type(value) is not int or not 1 <= value <= most:
            raise UserError(f"data.{name}.{key}={value}: should be a whole number from 1 to {most}")
    return source, settings


def replaced(place: Workplace, name: str, write: Callable[[Path], Obtained]) -> Obtained:
    """Replaces the prepared data set `name` by one whose arrays `write` writes into an empty folder.

    One folder can't be renamed over another in one step: a process that is killed in that moment leaves none. Raises
    BusyError: another process is replacing the same folder; DataError: the folder can't be written.
    """
    path = resolved(place.data / name)
    new = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with hold(path.with_name(f".{path.name}.lock"), f"{path}: another process that prepares it"):
            if path.exists() and not path.is_dir():
                raise DataError(f"{path}: a file is in the way; move it")
            shutil.rmtree(new, ignore_errors=True)  # of a process that was killed
            new.mkdir()
            try:
                obtained = write(new)
                describe(obtained, name, new)
                if path.exists():
                    shutil.rmtree(path)
                new.rename(path)
            finally:
                shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise DataError(f"{path}: not written ({error})") from error
    return obtained


def is_own_prepared(place: Workplace, data: DataSpec) -> bool:
    """Whether the arrays are those of the user's files, as told by their names, sizes and times of change."""
    try:
        return (place.data / data.name / MANIFEST).exists() and read_json(_listing(place, data)) == _files(data)
    except (OSError, ValueError):
        return False


def prepare_own(place: Workplace, data: DataSpec) -> Obtained:
    """Writes `data.name`/ below `place.data`, as `prepare.prepare` does. Raises DataError: they make no data set."""
    files = _files(data)  # before they are read: if they change meanwhile, they are read again the next time
    path = Path(str(data.path))

    def write(folder: Path) -> Obtained:
        try:
            if not path.is_dir():
                return _write_arrays(path, folder)
            found = convert(Folder(path), None, data.args[IMAGE_SIZE], folder, keep_encoded=True)
        except DataError as error:
            raise DataError(f"data.path={path}: {error}") from error
        return replace(found, source=f"pictures of the folder {path.name}")

    obtained = replaced(place, data.name, write)
    write_json(_listing(place, data), files)
    return obtained


def _listing(place: Workplace, data: DataSpec) -> Path:
    return place.data / ".sources" / f"{data.name}.json"


def _files(data: DataSpec) -> object:
    return listed(Path(str(data.path)), str(data.path), "data.path")


def _write_arrays(path: Path, folder: Path) -> Obtained:
    splits = _read_arrays(path)
    values = np.unique(np.concatenate([labels for _, labels in splits.values()]))
    if len(values) < 2:
        raise DataError(f"all labels are {values.tolist()}: a data set has at least two classes")
    if splits["train"][0].shape[1:] != splits["test"][0].shape[1:]:
        raise DataError("the images for training and testing differ in their shape")
    for split, (images, labels) in splits.items():
        if missing := np.setdiff1d(values, labels).tolist():
            raise DataError(f"no images of class {missing[0]} for {split} (a class needs at least {MIN_PICTURES})")
        save_split(folder, split, Arrays(images, np.searchsorted(values, labels).astype(label_type(len(values)))))
    return Obtained(classes=[str(value) for value in values], source=f"arrays of {path.name}")


Pair = tuple[NDArray[Any], NDArray[Any]]  # images and their labels


def _read_arrays(path: Path) -> dict[str, Pair]:
    """The images and labels of each split."""
    try:
        with np.load(path, allow_pickle=False) as loaded:
            names = set(loaded.files)
            if names >= {"x_train", "y_train", "x_test", "y_test"}:
                return {split: _pair(loaded, f"x_{split}", f"y_{split}") for split in SPLITS}
            if names >= {"images", "labels"}:
                return _divided(*_pair(loaded, "images", "labels"))
    except (*DAMAGED, TypeError, MemoryError) as error:
        raise DataError(f"not readable as an .npz file of arrays ({error})") from error
    raise DataError(f"its arrays are {', '.join(sorted(names)[:8]) or 'none'}; {EXPECTED}")


def _pair(loaded: Mapping[str, Any], of_images: str, of_labels: str) -> Pair:
    images, labels = (np.asanyarray(loaded[name]) for name in (of_images, of_labels))
    shape = images.shape
    is_image = len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3))
    is_sized = shape[:1] != (0,) and all(1 <= side <= MAX_SIDE for side in shape[1:3])
    if images.dtype != np.uint8 or not is_image or not is_sized:
        raise DataError(f"{of_images} is {images.dtype} of the shape {shape}; {EXPECTED}")
    if labels.dtype.kind not in "iu" or labels.shape not in (shape[:1], (shape[0], 1)):
        raise DataError(f"{of_labels} is {labels.dtype} of the shape {labels.shape}; {EXPECTED}, as many as images")
    if shape[3:] == (1,):
        images = images[..., 0]  # grey images have no axis of channels
    return images, labels.reshape(-1)


def _divided(images: NDArray[Any], labels: NDArray[Any]) -> dict[str, Pair]:
    rows = [Picture(f"{row:012}", int(label), None) for row, label in enumerate(labels)]
    numbers = {split: [int(row.name) for row in chosen] for split, chosen in divide(rows).items()}
    return {split: (images[chosen], labels[chosen]) for split, chosen in numbers.items()}
