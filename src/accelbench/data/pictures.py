"""Pictures -> arrays: found in a folder or an untrusted archive, divided, decoded in parallel, written as they come."""

import hashlib
import lzma
import os
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Protocol

import numpy as np

from accelbench.data.arrays import SPLITS, array_path, label_type, row_file
from accelbench.data.decode import decode
from accelbench.data.obtain import Obtained
from accelbench.devices.cpu import usable_cores
from accelbench.errors import DataError
from accelbench.project import resolved

MAX_FILE_BYTES = 64 << 20  # of a picture's file
# The errors of reading a damaged or an encrypted archive.
DAMAGED = (OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, ValueError, MemoryError)
TEST_SHARE = 0.2
SEED = 0
MIN_PICTURES = 3  # the fewest that give a test split of one picture: round(0.2 * 3)
MAX_REFUSED_SHARE = 0.5  # if more of a class is refused, the source as a whole is damaged
MAX_THREADS = 8  # each holds a picture, of half a gigabyte at most
CHUNK = 64  # pictures that are decoded before they are written, so that memory does not grow with their number
SAME = "the same bytes as"
ENDINGS = {".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp"}
SPLIT_WORDS = {
    **dict.fromkeys(("train", "training", "training_set"), "train"),
    **dict.fromkeys(("test", "test_set", "val", "valid", "validation"), "test"),
}


class Source(Protocol):
    """Files by name."""

    def names(self) -> list[str]:
        """The files' names, as relative paths with slashes."""

    def read(self, name: str) -> bytes:
        """One file's bytes. Raises DataError if it is damaged or no file, OSError if the disk fails."""


@dataclass(frozen=True)
class Folder:
    """The files below a folder. Links to folders are listed but not followed."""

    path: Path

    def names(self) -> list[str]:
        """Every file, and every link to a folder, below it. Raises DataError: a folder below it can't be read."""

        def refuse(error: OSError) -> None:
            raise DataError(f"{error.filename} is not a readable folder ({error.strerror})") from error

        found = []
        for folder, folders, files in os.walk(self.path, onerror=refuse):
            links = [name for name in folders if Path(folder, name).is_symlink()]
            found += [Path(folder, name).relative_to(self.path).as_posix() for name in files + links]
        return found

    def read(self, name: str) -> bytes:
        path = self.path / name
        if not resolved(path).is_relative_to(resolved(self.path)):
            raise DataError("a link out of the folder")
        if not path.exists():
            raise DataError("a link to nothing")
        if not path.is_file():
            raise DataError("no file, but a folder or a device")
        _check_size(path.stat().st_size, MAX_FILE_BYTES)
        return path.read_bytes()


@dataclass(frozen=True)
class Zip:
    """The files in a zip archive. They are read without unpacking them onto the disk, so that any name is harmless."""

    path: Path
    max_file_bytes: int = MAX_FILE_BYTES

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(self.path)

    def names(self) -> list[str]:
        """The names of the members, without folders. Raises DataError: this is no zip archive."""
        try:
            return [member.filename for member in self._archive.infolist() if not member.is_dir()]
        except DAMAGED as error:
            raise DataError(f"{self.path.name}: no readable zip archive ({error})") from error

    def read(self, name: str) -> bytes:
        """One member's bytes; several threads may read. Raises DataError: it is damaged or too large."""
        _check_size(self._archive.getinfo(name).file_size, self.max_file_bytes)
        try:
            return self._archive.read(name)
        except DAMAGED as error:
            raise DataError(f"damaged in the archive ({error})") from error


def _check_size(num_bytes: int, most: int) -> None:
    if num_bytes > most:
        raise DataError(f"too large ({num_bytes:,} bytes)")


def open_source(path: Path) -> Source:
    """The pictures of a folder or of a zip archive. Raises DataError: `path` is neither."""
    if path.is_dir():
        return Folder(path)
    if not path.is_file():
        raise DataError(f"{path} is neither a folder nor a zip archive")
    return Zip(path)


@dataclass(frozen=True)
class Picture:
    """A picture file, not read yet."""

    name: str  # path within the source
    label: int  # index of the class
    split: str | None  # one of `SPLITS`; None if the path doesn't say


# The classes, their pictures, sorted by name, and the name of any other file -> why it is left out.
Layout = tuple[list[str], list[Picture], dict[str, str]]


def find(names: Iterable[str], classes: Sequence[str] | None) -> Layout:
    """Finds the pictures of each class, and their splits if there are folders for training and for testing.

    Of known classes, the class is the name of the nearest folder that is named after one (`Cat`, `cats`), or the
    beginning of the file's name (`cat.0.jpg`). If `classes` is None, each folder is a class, directly in the source or
    in its folders for training and for testing. Raises DataError: there are fewer than two classes.
    """
    surplus = {}
    paths = {}
    for name in sorted(names):
        path = PurePosixPath(name.replace("\\", "/"))
        if path.suffix.lower() not in ENDINGS or any(part.startswith(".") for part in path.parts):
            surplus[name] = "no picture by its name"
        elif classes is not None and _class_in(path, classes) is None:
            surplus[name] = f"of no class ({', '.join(classes)}) by its folder or name"
        else:
            paths[name] = path
    split_of = {name: next(filter(None, map(_split_of, path.parts[:-1])), None) for name, path in paths.items()}
    is_divided = set(SPLITS) <= set(split_of.values())
    class_of = {}
    for name, path in paths.items():
        if is_divided and split_of[name] is None:
            surplus[name] = "in neither the training nor the test folder"
            continue
        folders = [folder for folder in path.parts[:-1] if not (is_divided and _split_of(folder))]
        if classes is not None:
            class_of[name] = str(_class_in(path, classes))
        elif folders:
            class_of[name] = folders[0]
        else:
            surplus[name] = "in no folder of a class"
    known = sorted(set(class_of.values())) if classes is None else list(classes)
    if len(known) < 2:
        raise DataError(
            f"it has {len(known)} folders with pictures ({', '.join(sorted(ENDINGS))}): a class is such a folder, "
            "directly below it, or below train/ and test/ (or val/), and two are needed"
        )
    pictures = [
        Picture(name, known.index(label), split_of[name] if is_divided else None) for name, label in class_of.items()
    ]
    return known, pictures, surplus


def _split_of(folder: str) -> str | None:
    return SPLIT_WORDS.get(folder.lower())


def _class_in(path: PurePosixPath, classes: Sequence[str]) -> str | None:
    beginning = re.match(r"[a-z]+(?=[._ -]?\d)", path.name.lower())
    words = [folder.lower() for folder in reversed(path.parts[:-1])]
    for word in [*words, beginning.group() if beginning else ""]:
        for name in classes:
            if word in (name, f"{name}s"):
                return name
    return None


def divide(pictures: Sequence[Picture], seed: int = SEED) -> dict[str, list[Picture]]:
    """Divides pictures into training and test, each class in the same proportion, in a seeded random order.

    Pictures whose path names a split keep it. The result depends only on the names, not on the order of `pictures`.
    """
    rng = np.random.default_rng(seed)
    splits: dict[str, list[Picture]] = {split: [] for split in SPLITS}
    ordered = sorted(pictures, key=lambda picture: picture.name)
    for label in sorted({picture.label for picture in ordered}):
        undecided: list[Picture] = []
        for picture in ordered:
            if picture.label == label:
                (splits[picture.split] if picture.split else undecided).append(picture)
        shuffled = [undecided[index] for index in rng.permutation(len(undecided))]
        num_test = round(TEST_SHARE * len(shuffled))
        splits["test"] += shuffled[:num_test]
        splits["train"] += shuffled[num_test:]
    return {split: [chosen[index] for index in rng.permutation(len(chosen))] for split, chosen in splits.items()}


def convert(
    source: Source,
    classes: Sequence[str] | None,
    side: int,
    folder: Path,
    *,
    keep_encoded: bool = False,
    resizes: bool = True,
    max_images: int | None = None,
) -> Obtained:
    """Writes the arrays of `source`'s pictures into `folder`. Memory does not grow with the number of pictures.

    `folder` gets {train,test}_{images,labels}.npy, and with `keep_encoded` the files' bytes, concatenated, and where
    each ends, for `data.pipeline=jpeg`. `classes` are names in lower case and singular, in the order of the labels;
    None: those of the folders. Unless it `resizes`, pictures of another size are refused. At most `max_images` pictures
    are taken, the same share of each split, in its random order.

    Raises DataError: a split would have no picture of a class, or most pictures of a class can't be read.
    """
    known, pictures, refused = find(source.names(), classes)
    splits, part, num = divide(pictures), "", len(pictures)
    if max_images is not None and num > max_images:
        part = f"{max_images:,} of {num:,} pictures"
        splits = {split: found[: round(len(found) * max_images / num)] for split, found in splits.items()}
    _check_classes(splits, known, refused)
    seen: dict[bytes, str] = {}
    for split in reversed(SPLITS):  # test first: a copy in both splits must be missing in training
        names = [picture.name for picture in splits[split]]
        decoded = _decoded(source, names, side, resizes)
        reasons = _write(names, decoded, folder, split, side, seen, keep_encoded)
        _check_refused(splits[split], reasons, known)
        refused |= reasons
        splits[split] = [picture for picture in splits[split] if picture.name not in reasons]
        labels = [picture.label for picture in splits[split]]
        np.save(array_path(folder, split, "labels"), np.array(labels, label_type(len(known))))
    _check_classes(splits, known, refused)
    return Obtained(refused=_lines(refused), part=part, classes=known)


# The bytes of a file and of its pixels, or why the picture is refused.
Decoded = tuple[bytes, bytes] | str


def _decoded(source: Source, names: Sequence[str], side: int, resizes: bool) -> Iterator[Decoded]:
    """The pictures in their order, decoded by a thread for each core: Pillow computes without Python's lock."""

    def one(name: str) -> Decoded:
        try:
            content = source.read(name)
            return content, decode(content, side, resizes=resizes).tobytes()
        except DataError as error:
            return str(error)
        except OSError as error:  # the disk fails
            raise DataError(f"{name}: not readable ({error.strerror})") from error

    with ThreadPoolExecutor(min(MAX_THREADS, usable_cores())) as pool, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of unusual Exif data; here, since it holds for all threads
        for start in range(0, len(names), CHUNK):
            yield from pool.map(one, names[start : start + CHUNK])


def _write(
    names: Sequence[str],
    decoded: Iterable[Decoded],
    folder: Path,
    split: str,
    side: int,
    seen: dict[bytes, str],
    keep_encoded: bool,
) -> dict[str, str]:
    """Writes the good pictures of a split, and their files; returns why others are refused, such as a copy.

    `seen` has the name of the first picture by the digest of its file. A copy in both splits would leak into the test.
    """
    reasons = {}
    sizes = []
    with (
        row_file(array_path(folder, split, "images"), (side, side, 3)) as images,
        row_file(array_path(folder, split, "encoded"), ()) if keep_encoded else nullcontext() as encoded,
    ):
        for name, picture in zip(names, decoded, strict=True):
            if isinstance(picture, str):
                reasons[name] = picture
                continue
            content, pixels = picture
            first = seen.setdefault(hashlib.sha256(content).digest(), name)
            if first != name:
                reasons[name] = f"{SAME} {first}"
                continue
            images.write(pixels)
            if encoded is not None:
                encoded.write(content)
                sizes.append(len(content))
    if keep_encoded:
        np.save(array_path(folder, split, "ends"), np.cumsum(sizes, dtype=np.int64))
    return reasons


def _check_classes(splits: Mapping[str, list[Picture]], classes: Sequence[str], refused: Mapping[str, str]) -> None:
    for split, pictures in splits.items():
        labels = {picture.label for picture in pictures}
        if missing := [name for label, name in enumerate(classes) if label not in labels]:
            few = f"a class needs at least {MIN_PICTURES} pictures, in folders and not in archives"
            raise DataError(f"no readable pictures of {', '.join(missing)} for {split} ({few}){_first(refused)}")


def _check_refused(pictures: Sequence[Picture], reasons: Mapping[str, str], classes: Sequence[str]) -> None:
    for label, of_class in enumerate(classes):
        names = [picture.name for picture in pictures if picture.label == label]
        damaged = {name: reasons[name] for name in names if not reasons.get(name, SAME).startswith(SAME)}
        if len(damaged) > MAX_REFUSED_SHARE * len(names):
            raise DataError(f"{len(damaged):,} of {len(names):,} pictures of {of_class} are refused{_first(damaged)}")


def _first(refused: Mapping[str, str]) -> str:
    return "\n  ".join([":", *_lines(refused)[:5]]) if refused else ""


def _lines(refused: Mapping[str, str]) -> list[str]:
    return [f"{name}: {reason}" for name, reason in refused.items()]
