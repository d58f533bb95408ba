"""CIFAR-10: its Python batches, or the same pictures as PNG files by class; drawn shapes as a stand-in."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from accelbench.data import download as downloads
from accelbench.data.archive import extract_tar
from accelbench.data.arrays import Arrays, save_split
from accelbench.data.drawings import Style, save_drawn
from accelbench.data.obtain import FileSet, Target, Verified
from accelbench.data.pictures import convert, open_source
from accelbench.data.shapes import THINGS
from accelbench.errors import DataError

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

SIDE = 32
ARCHIVE = downloads.File("cifar-10-python.tar.gz", "md5", "c58f30108f718f92721af3b95e74349a")
MIRRORS = ("https://www.cs.toronto.edu/~kriz/",)
BATCHES = "cifar-10-batches-py"
FILES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta")
MAX_BATCH_BYTES = 40_000_000


def download(folder: Path) -> Path:
    """Downloads the archive of Python batches."""
    downloads.download([ARCHIVE], MIRRORS, folder)
    return folder / ARCHIVE.name


def read(path: Path, target: Target) -> Verified:
    """Reads the archive, the folder of its batches or one above it, or a folder or zip of PNG files by class."""
    if path.is_file() and path.name.endswith((".tar.gz", ".tgz", ".tar")):
        with TemporaryDirectory() as temporary:
            batches = Path(temporary, BATCHES)
            batches.mkdir()
            surplus = extract_tar(path, {f"{BATCHES}/{name}": MAX_BATCH_BYTES for name in FILES}, batches)
            _read_batches(batches, target.folder)
        return Verified(refused=[f"{name}: not one of the batches" for name in surplus])
    for folder in (path, path / BATCHES):
        if any((folder / name).is_file() for name in FILES):
            _read_batches(folder, target.folder)
            return Verified()
    return convert(open_source(path), CLASSES, SIDE, target.folder, resizes=False)


def stand_in(target: Target) -> str:
    """Draws silhouettes of the ten classes in colour, on a cluttered background."""
    return save_drawn(target.folder, THINGS, {"train": 10_000, "test": 2_000}, SIDE, Style(size=(0.55, 0.85), turn=15))


def _read_batches(folder: Path, target: Path) -> None:
    """Reads the batches through torchvision, which checks each file's md5 before it unpickles it."""
    from torchvision.datasets import CIFAR10  # takes a second

    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise DataError(f"{folder} does not hold the original files of CIFAR-10: missing {', '.join(missing)}")
    with TemporaryDirectory() as temporary:
        Path(temporary, BATCHES).symlink_to(folder.resolve())
        for split in ("train", "test"):
            try:
                data = CIFAR10(temporary, train=split == "train")
            except RuntimeError as error:
                raise DataError(f"{folder}: a batch is altered or incomplete: its md5 is not the original's") from error
            save_split(target, split, Arrays(data.data, np.array(data.targets, np.uint8)))


DATA_SET = FileSet(
    title="CIFAR-10",
    home="data/cifar-10-batches-py",  # torchvision's own place
    classes=CLASSES,
    download=download,
    read=read,
    stand_in=stand_in,
)
