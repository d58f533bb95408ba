"""Obtains a data set of params.yaml or of the user's own, converts it once, and describes it in its manifest."""

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.data.arrays import SPLITS, Arrays, digest_of, label_type, load_split, read_counts, save_split
from accelbench.data.obtain import DataSet, Obtained, Target, find, listed
from accelbench.data.pictures import DAMAGED, MAX_TOTAL_BYTES, MIN_PICTURES, Folder, Picture, convert, divide
from accelbench.errors import DataError, UserError, did_you_mean
from accelbench.lock import hold
from accelbench.project import MANIFEST, Workplace, resolved
from accelbench.schema.serialize import read_json, write_json
from accelbench.schema.workload import DataSpec

SOURCES = "auto, download, or the path of the original files"
MAX_SETTING, MAX_SIDE = 1_000_000, 4096
IMAGE_SIZE = "image_size"  # the argument with the height and width of a folder's images
MAX_SHARED = 0.01  # of the test images: public sets have a few that are training images, too
WHOLE = ("images", "labels")
DIVIDED = ("x_train", "y_train", "x_test", "y_test")
EXPECTED = (
    f"expected are {' and '.join(WHOLE)}, or {', '.join(DIVIDED)}: images are uint8 of the shape (n, height, width) or "
    "(n, height, width, 3), labels are whole numbers of the shape (n)"
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
    if unknown := set(given) - set(choices):
        meant, listed = did_you_mean(min(unknown), choices), ", ".join(choices) or "-"
        raise UserError(f"data.{name}: unknown key {', '.join(sorted(unknown))}.{meant} It has: {listed}.")
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
    assert data.path is not None, "data of the user's own have a path"
    try:
        return listed(Path(data.path), data.path)
    except OSError as error:
        raise UserError(f"data.path={data.path}: not readable ({error})") from error


def _write_arrays(path: Path, folder: Path) -> Obtained:
    arrays = _read_arrays(path)
    if "images" in arrays:
        rows = [Picture(f"{row:012}", int(label), None) for row, label in enumerate(arrays["labels"])]
        for split, chosen in divide(rows).items():
            numbers = [int(row.name) for row in chosen]
            arrays |= {f"x_{split}": arrays["images"][numbers], f"y_{split}": arrays["labels"][numbers]}
    values = np.unique(np.concatenate([arrays["y_train"], arrays["y_test"]]))
    if len(values) < 2:
        raise DataError(f"all labels are {values.tolist()}: a data set has at least two classes")
    for split in SPLITS:
        images, labels = arrays[f"x_{split}"], arrays[f"y_{split}"]
        if missing := np.setdiff1d(values, labels).tolist():
            raise DataError(f"no images of class {missing[0]} for {split} (a class needs at least {MIN_PICTURES})")
        if images.shape[1:] != arrays["x_train"].shape[1:]:
            raise DataError("the images for training and testing differ in their shape")
        save_split(folder, split, Arrays(images, np.searchsorted(values, labels).astype(label_type(len(values)))))
    return Obtained(classes=[str(value) for value in values], source=f"arrays of {path.name}")


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as loaded:
            if sum(member.file_size for member in loaded.zip.infolist()) > MAX_TOTAL_BYTES:
                raise DataError(f"its arrays have more than {MAX_TOTAL_BYTES:,} bytes")
            names = next((names for names in (DIVIDED, WHOLE) if set(names) <= set(loaded.files)), None)
            if names is None:
                raise DataError(f"its arrays are {', '.join(sorted(loaded.files)[:8]) or 'none'}; {EXPECTED}")
            found = {name: np.asanyarray(loaded[name]) for name in names}
    except (*DAMAGED, ValueError, TypeError, MemoryError) as error:
        raise DataError(f"not readable as an .npz file of arrays ({error})") from error
    for images, labels in zip(names[::2], names[1::2], strict=True):
        kind, shape = found[images].dtype, found[images].shape
        is_image = len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3))
        if kind != np.uint8 or not is_image or not shape[0] or not all(1 <= side <= MAX_SIDE for side in shape[1:3]):
            raise DataError(f"{images} is {kind} of the shape {shape}; {EXPECTED}")
        if shape[3:] == (1,):
            found[images] = found[images][..., 0]  # grey images have no axis of channels
        kind, num, shape = found[labels].dtype, len(found[images]), found[labels].shape
        if kind.kind not in "iu" or shape not in ((num,), (num, 1)):
            raise DataError(f"{labels} is {kind} of the shape {shape}; {EXPECTED}, as many as images")
        found[labels] = found[labels].reshape(-1)
    return found
