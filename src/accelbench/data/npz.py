"""Arrays of images and labels in an .npz file of NumPy. Its headers are checked before anything of it is read."""

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from accelbench.data.archive import DAMAGED, MAX_TOTAL_BYTES
from accelbench.data.arrays import SPLITS, Arrays, label_type, save_split
from accelbench.data.obtain import OWN_DIVISION, Obtained
from accelbench.data.pictures import MIN_PICTURES, SEED, TEST_SHARE
from accelbench.errors import DataError

WHOLE = ("images", "labels")
DIVIDED = ("x_train", "y_train", "x_test", "y_test")
EXPECTED = (
    f"expected are {' and '.join(WHOLE)}, or {', '.join(DIVIDED)}: images are uint8 of the shape (n, height, width) or "
    "(n, height, width, 3), labels are whole numbers of the shape (n)"
)
MAX_SIDE = 4096
MAX_HEADER_BYTES = 4096

Split = tuple[NDArray[Any], NDArray[Any]]


def read(path: Path, folder: Path) -> Obtained:
    """Writes the arrays of the file at `path` into `folder`.

    Raises:
        DataError: the file is damaged, or has other arrays than a data set needs.
    """
    arrays = _arrays(path)
    if set(DIVIDED) <= set(arrays):
        splits = {"train": (arrays["x_train"], arrays["y_train"]), "test": (arrays["x_test"], arrays["y_test"])}
        division = OWN_DIVISION
    else:
        splits = _divided(arrays["images"], arrays["labels"])
        division = f"{TEST_SHARE:.0%} of each class for testing, seed {SEED}"
    values = np.unique(np.concatenate([labels for _, labels in splits.values()]))
    if len(values) < 2:
        raise DataError(f"all labels are {values.tolist()}: a data set has at least two classes")
    for split in SPLITS:
        images, labels = splits[split]
        if missing := np.setdiff1d(values, labels).tolist():
            raise DataError(f"no images of class {missing[0]} for {split} (a class needs at least {MIN_PICTURES})")
        if images.shape[1:] != splits["train"][0].shape[1:]:
            raise DataError("the images for training and testing differ in their shape")
        save_split(folder, split, Arrays(images, np.searchsorted(values, labels).astype(label_type(len(values)))))
    return Obtained(classes=[str(value) for value in values], source=f"arrays of {path.name}", division=division)


def _divided(images: NDArray[Any], labels: NDArray[Any]) -> dict[str, Split]:
    rng = np.random.default_rng(SEED)
    order = rng.permutation(len(labels))
    is_test = np.zeros(len(labels), bool)
    for value in np.unique(labels):
        members = order[labels[order] == value]
        is_test[members[: round(TEST_SHARE * len(members))]] = True
    chosen = {"train": order[~is_test[order]], "test": order[is_test[order]]}
    return {split: (images[rows], labels[rows]) for split, rows in chosen.items()}


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            names = next((names for names in (DIVIDED, WHOLE) if set(names) <= set(members)), None)
            if names is None:
                has = ", ".join(sorted(members)[:8]) or "none"
                raise DataError(f"its arrays are {has}; {EXPECTED}")
            if sum(members[name].file_size for name in names) > MAX_TOTAL_BYTES:
                raise DataError(f"its arrays have more than {MAX_TOTAL_BYTES:,} bytes")
            for name in names:
                _check(name, archive, members[name])
        with np.load(path, allow_pickle=False) as loaded:
            found = {name: loaded[name] for name in names}
    except (*DAMAGED, ValueError, MemoryError) as error:
        raise DataError(f"not readable as an .npz file of arrays ({error})") from error
    for images, labels in zip(names[::2], names[1::2], strict=True):
        if len(found[images]) != len(found[labels]):
            raise DataError(f"{images} has {len(found[images]):,} rows, and {labels} {len(found[labels]):,}")
        found[labels] = found[labels].reshape(-1)
        if found[images].shape[3:] == (1,):
            found[images] = found[images][..., 0]  # grey images have no axis of channels
    return found


def _check(name: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    with archive.open(member) as file:
        version = npy.read_magic(file)
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, kind = header(file, max_header_size=MAX_HEADER_BYTES)
        num_bytes = member.file_size - file.tell()
    if name in ("images", "x_train", "x_test"):
        is_image = len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3))
        if kind != np.uint8 or not is_image or not all(1 <= side <= MAX_SIDE for side in shape[1:3]) or not shape[0]:
            raise DataError(f"{name} is {kind} of the shape {shape}; {EXPECTED}")
    elif kind.kind not in "iu" or len(shape) not in (1, 2) or shape[1:] not in ((), (1,)):
        raise DataError(f"{name} is {kind} of the shape {shape}; {EXPECTED}")
    if math.prod(shape) * kind.itemsize != num_bytes:
        raise DataError(f"{name} is damaged: its size is not that of its shape")
