"""Data of the user's own: a folder of pictures by class, or an .npz file with arrays of images and labels."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.data.archive import DAMAGED, MAX_TOTAL_BYTES
from accelbench.data.arrays import SPLITS, Arrays, label_type, save_split
from accelbench.data.obtain import OWN_DIVISION, Obtained, listed
from accelbench.data.pictures import MIN_PICTURES, SEED, TEST_SHARE, Folder, Picture, convert, divide
from accelbench.data.prepare import MAX_SIDE, replaced
from accelbench.errors import DataError, UserError
from accelbench.project import MANIFEST, Workplace
from accelbench.schema.serialize import read_json, write_json
from accelbench.schema.workload import DataSpec

IMAGE_SIZE = "image_size"  # the argument with the height and width of a folder's images
WHOLE = ("images", "labels")
DIVIDED = ("x_train", "y_train", "x_test", "y_test")
EXPECTED = (
    f"expected are {' and '.join(WHOLE)}, or {', '.join(DIVIDED)}: images are uint8 of the shape (n, height, width) or "
    "(n, height, width, 3), labels are whole numbers of the shape (n)"
)


def is_prepared(place: Workplace, data: DataSpec) -> bool:
    """Whether the arrays are those of the user's files, as told by their names, sizes and times of change."""
    try:
        return (place.data / data.name / MANIFEST).exists() and read_json(_listing(place, data)) == _files(data)
    except (OSError, ValueError):
        return False


def prepare(place: Workplace, data: DataSpec) -> Obtained:
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
    division = OWN_DIVISION
    if "images" in arrays:
        division = f"{TEST_SHARE:.0%} of each class for testing, seed {SEED}"
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
    return Obtained(classes=[str(value) for value in values], source=f"arrays of {path.name}", division=division)


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
