"""Turns pictures into arrays. The pictures of a folder or an untrusted archive are divided into splits and decoded."""

import hashlib
import lzma
import os
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path, PurePosixPath

import numpy as np

from accelbench.data.arrays import SPLITS, array_path, label_type, row_file
from accelbench.data.decode import decode
from accelbench.data.obtain import Obtained
from accelbench.devices.cpu import usable_cores
from accelbench.errors import DataError

MAX_FILE_BYTES = 64 << 20  # size of a picture file
MAX_UNPACKED = 100  # unpacked bytes for each byte of an archive; pictures hardly shrink
# The errors of reading a damaged or an encrypted archive.
DAMAGED = (OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, ValueError, MemoryError)
TEST_SHARE = 0.2
SEED = 0
MIN_PICTURES = 3  # pictures of a class that give a test split of one picture: round(0.2 * 3)
MAX_THREADS = 8  # each thread holds a picture, of half a gigabyte at most
CHUNK = 64  # pictures that are decoded before they are written; it bounds the memory
ENDINGS = {".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp"}
SPLIT_WORDS = {
    **dict.fromkeys(("train", "training", "training_set"), "train"),
    **dict.fromkeys(("test", "test_set", "val", "valid", "validation"), "test"),
}


@dataclass(frozen=True)
class Folder:
    """The files below a folder. Links to folders are listed but not followed."""

    path: Path

    def names(self) -> list[str]:
        """Returns the names of all files and links below the folder. Raises DataError: a folder can't be read."""

        def refuse(error: OSError) -> None:
            raise DataError(f"{error.filename} is not a readable folder ({error.strerror})") from error

        paths = []
        for folder, folders, files in os.walk(self.path, onerror=refuse):
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            paths += [Path(folder, name) for name in files + links]
        return [path.relative_to(self.path).as_posix() for path in paths]

    def read(self, name: str) -> bytes:
        """Returns the bytes of a file. Raises DataError: it is too large or no file. Raises OSError: the disk fails."""
        path = self.path / name
        if not path.is_file():
            raise DataError("not a file, but a folder, a device or a link to nothing")
        _check_size(path.stat().st_size, MAX_FILE_BYTES)
        return path.read_bytes()


@dataclass(frozen=True)
class Zip:
    """The files in a zip archive. They are not unpacked onto the disk, so their names can do no harm."""

    path: Path
    max_file_bytes: int = MAX_FILE_BYTES

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(self.path)

    def names(self) -> list[str]:
        """Returns the names of the files. Raises DataError: this is not a zip archive, or is a decompression bomb."""
        try:
            members = self._archive.infolist()
        except DAMAGED as error:
            raise DataError(f"{self.path.name}: not a readable zip archive ({error})") from error
        num_bytes = sum(member.file_size for member in members)
        if num_bytes > MAX_UNPACKED * self.path.stat().st_size:
            raise DataError(f"{self.path.name}: unpacks to {num_bytes:,} bytes, above {MAX_UNPACKED} times its size")
        return [member.filename for member in members if not member.is_dir()]

    def read(self, name: str) -> bytes:
        """Returns the bytes of a file. Is safe in threads. Raises DataError: the file is damaged or too large."""
        _check_size(self._archive.getinfo(name).file_size, self.max_file_bytes)
        try:
            return self._archive.read(name)
        except DAMAGED as error:
            raise DataError(f"damaged in the archive ({error})") from error


Source = Folder | Zip


def _check_size(num_bytes: int, most: int) -> None:
    if num_bytes > most:
        raise DataError(f"too large ({num_bytes:,} bytes)")


def open_source(path: Path) -> Source:
    """Opens a folder or a zip archive of pictures. Raises DataError: `path` is neither."""
    if path.is_dir():
        return Folder(path)
    if not path.is_file():
        raise DataError(f"{path} is neither a folder nor a zip archive")
    return Zip(path)


@dataclass
class Picture:
    """A picture file."""

    name: str  # path within the source
    label: int  # index of its class
    split: str | None  # one of `SPLITS`; None if the path names no split
    refused: str = ""  # why it was left out; empty if it was used, or before it is read


# The names of the classes; the pictures, sorted by name; name of any other file -> why it is left out.
Layout = tuple[list[str], list[Picture], dict[str, str]]


def find(names: Iterable[str], classes: Sequence[str] | None) -> Layout:
    """Finds the pictures of each class, and their splits if there are folders for training and testing.

    The class of a picture is the folder that contains it. If `classes` are given, a folder is named after a class
    (`Cat`, `cats`), or the letters at the beginning of the file's name are a class (`cat.0.jpg`).

    Raises DataError: there are fewer than two classes.
    """
    surplus = {}
    paths = {}
    for name in sorted(names):
        path = PurePosixPath(name.replace("\\", "/"))
        is_hidden = any(part.startswith(".") for part in path.parts)
        if is_hidden or path.suffix.lower() not in ENDINGS:
            surplus[name] = "its name is not that of a picture"
        elif classes is not None and _class_of(path, classes) is None:
            surplus[name] = f"neither its folder nor its name is a class ({', '.join(classes)})"
        else:
            paths[name] = path
    split_of = {name: next(filter(None, map(_split_of, path.parts[:-1])), None) for name, path in paths.items()}
    is_divided = set(SPLITS) <= set(split_of.values())
    class_of = {}
    for name, path in paths.items():
        folders = [folder for folder in path.parts[:-1] if not is_divided or _split_of(folder) is None]
        if is_divided and split_of[name] is None:
            surplus[name] = "in neither the training nor the test folder"
        elif classes is not None:
            class_of[name] = str(_class_of(path, classes))
        elif folders:
            class_of[name] = folders[-1]
        else:
            surplus[name] = "in no folder of a class"
    labels = {label: index for index, label in enumerate(classes or sorted(set(class_of.values())))}
    if len(labels) < 2:
        raise DataError(
            f"it has {len(labels)} folders with pictures ({', '.join(sorted(ENDINGS))}), but needs at least two. "
            "Make a folder for each class, directly in it, or in its folders train/ and test/ (or val/)"
        )
    pictures = [
        Picture(name, labels[label], split_of[name] if is_divided else None) for name, label in class_of.items()
    ]
    return list(labels), pictures, surplus


def _split_of(folder: str) -> str | None:
    return SPLIT_WORDS.get(folder.lower())


def _class_of(path: PurePosixPath, classes: Sequence[str]) -> str | None:
    folders = [folder for folder in path.parts[:-1] if _split_of(folder) is None]
    letters = re.split("[^a-z]", path.name.lower())[0]
    for word in [*folders[-1:], letters]:
        name = word.lower().removesuffix("s")
        if name in classes:
            return name
    return None


def divide(pictures: Iterable[Picture]) -> dict[str, list[Picture]]:
    """Divides pictures at random into training and test set. Of each class, the test set gets the same share.

    If the path of a picture names a split, the picture stays in this split. The result does not depend on the order of
    `pictures`, and is the same for the same names.
    """
    rng = np.random.default_rng(SEED)
    splits: dict[str, list[Picture]] = {split: [] for split in SPLITS}
    ordered = sorted(pictures, key=lambda picture: (picture.label, picture.name))
    for _, of_class in groupby(ordered, lambda picture: picture.label):
        undecided: list[Picture] = []
        for picture in of_class:
            splits.get(picture.split or "", undecided).append(picture)
        shuffled = [undecided[index] for index in rng.permutation(len(undecided))]
        num_test = round(TEST_SHARE * len(shuffled))
        splits["test"] += shuffled[:num_test]
        splits["train"] += shuffled[num_test:]
    return {split: [chosen[index] for index in rng.permutation(len(chosen))] for split, chosen in splits.items()}


def convert(source: Source, classes: Sequence[str] | None, side: int, folder: Path, *, max_images: int = 0) -> Obtained:
    """Converts the pictures of `source` into arrays in `folder`. Large sets need no more memory than small ones.

    `folder` gets {train,test}_{images,labels}.npy. For `data.pipeline=jpeg`, it also gets the bytes of the picture
    files (`Encoded`).

    Args:
        classes: names in lower case and singular, in the order of their labels. None means the names of the folders.
        side: height and width of the images.
        max_images: how many pictures are used. They are chosen at random, the same share of each split. 0 means all.

    Raises DataError: a split would have no picture of a class.
    """
    class_names, pictures, surplus = find(source.names(), classes)
    splits = divide(pictures)
    part = ""
    if 0 < max_images < len(pictures):
        part = f"{max_images:,} of {len(pictures):,} pictures"
        share = max_images / len(pictures)
        splits = {split: chosen[: round(share * len(chosen))] for split, chosen in splits.items()}
    refused = [f"{name}: {reason}" for name, reason in surplus.items()]
    _check_classes(splits, class_names, refused)
    names: dict[bytes, str] = {}
    for split in reversed(SPLITS):  # test first: if a picture is in both splits, only the test set gets it
        _write(source, splits[split], folder, split, side, names)
        refused += _lines(splits[split])
        splits[split] = [picture for picture in splits[split] if not picture.refused]
        labels = [picture.label for picture in splits[split]]
        np.save(array_path(folder, split, "labels"), np.array(labels, label_type(len(class_names))))
    _check_classes(splits, class_names, refused)
    return Obtained(refused=refused, part=part, classes=class_names)


def _write(
    source: Source,
    pictures: Sequence[Picture],
    folder: Path,
    split: str,
    side: int,
    names: dict[bytes, str],
) -> None:
    """Writes the pictures of a split. Skips copies and unreadable pictures, and sets their `refused` to the reason.

    `names`: digest of a file -> name of the first picture with this digest. If copies were not skipped, the training
    set might contain a copy of a test picture.
    """

    def read(picture: Picture) -> tuple[bytes, bytes] | None:
        """Returns the bytes of the file and of its pixels. It runs in several threads, as Pillow releases the GIL."""
        try:
            content = source.read(picture.name)
            return content, decode(content, side).tobytes()
        except DataError as error:
            picture.refused = str(error)
        except OSError as error:  # the disk fails
            raise DataError(f"{picture.name}: not readable ({error.strerror})") from error
        return None

    sizes = []
    with (
        warnings.catch_warnings(action="ignore"),  # warnings of unusual Exif data, in all threads
        row_file(array_path(folder, split, "images"), (side, side, 3)) as images,
        row_file(array_path(folder, split, "encoded"), ()) as encoded,
        ThreadPoolExecutor(min(MAX_THREADS, usable_cores())) as pool,
    ):
        for start in range(0, len(pictures), CHUNK):
            chunk = pictures[start : start + CHUNK]
            for picture, done in zip(chunk, pool.map(read, chunk), strict=True):
                if done is None:
                    continue
                content, pixels = done
                first = names.setdefault(hashlib.sha256(content).digest(), picture.name)
                if first != picture.name:
                    picture.refused = f"the same bytes as {first}"
                    continue
                images.write(pixels)
                encoded.write(content)
                sizes.append(len(content))
    np.save(array_path(folder, split, "ends"), np.cumsum(sizes, dtype=np.int64))


def _check_classes(splits: Mapping[str, Sequence[Picture]], classes: Sequence[str], refused: Sequence[str]) -> None:
    for split, pictures in splits.items():
        labels = {picture.label for picture in pictures}
        if missing := [name for label, name in enumerate(classes) if label not in labels]:
            few = f"a class needs at least {MIN_PICTURES} pictures in folders; archives in folders are not read"
            raise DataError(f"no readable pictures of {', '.join(missing)} for {split} ({few}){_first(refused)}")


def _lines(pictures: Iterable[Picture]) -> list[str]:
    return [f"{picture.name}: {picture.refused}" for picture in pictures if picture.refused]


def _first(refused: Sequence[str]) -> str:
    return "\n  ".join([":", *refused[:5]]) if refused else ""
