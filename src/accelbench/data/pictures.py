"""Pictures -> arrays: found in a folder or an untrusted archive, divided, decoded in parallel, written as they come."""

import hashlib
import lzma
import os
import re
import stat
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol

import numpy as np

from accelbench.data.arrays import SPLITS, RowFile, array_path, label_type
from accelbench.data.decode import decode
from accelbench.data.obtain import Obtained
from accelbench.devices.cpu import usable_cores
from accelbench.errors import DataError
from accelbench.project import resolved

MAX_MEMBERS = 200_000
MAX_MEMBER_BYTES = 64 << 20
MAX_TOTAL_BYTES = 32 << 30
# The errors of reading a damaged or an encrypted archive.
DAMAGED = (OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError)
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

        return [
            Path(folder, name).relative_to(self.path).as_posix()
            for folder, folders, files in os.walk(self.path, onerror=refuse)
            for name in [*files, *(below for below in folders if Path(folder, below).is_symlink())]
        ]

    def read(self, name: str) -> bytes:
        path = self.path / name
        if not resolved(path).is_relative_to(resolved(self.path)):
            raise DataError("a link out of the folder")
        try:
            status = path.stat()
        except FileNotFoundError as error:
            raise DataError("a link to nothing") from error
        if not stat.S_ISREG(status.st_mode):
            raise DataError("no file, but a folder or a device")
        if status.st_size > MAX_MEMBER_BYTES:
            raise DataError(f"too large ({status.st_size:,} bytes)")
        return path.read_bytes()


@dataclass(frozen=True)
class Zip:
    """The files in a zip archive, read without unpacking them onto the disk."""

    path: Path
    max_total_bytes: int = MAX_TOTAL_BYTES
    max_member_bytes: int = MAX_MEMBER_BYTES

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(self.path)

    def names(self) -> list[str]:
        """The names of the members, without folders.

        Raises DataError: this is no zip archive, or a member is unsafe: an absolute path, `..` in the path, a link, a
        repeated name, or larger than `max_member_bytes`.
        """
        try:
            members = self._archive.infolist()
        except (*DAMAGED, UnicodeDecodeError) as error:
            raise DataError(f"{self.path.name}: no readable zip archive ({error})") from error
        found: dict[str, int] = {}
        for member in members:
            if problem := _problem(member, self.max_member_bytes) or (member.filename in found and "is there twice"):
                raise DataError(f"{self.path.name}: {member.filename!r} {problem}; nothing of it is used")
            if not member.filename.endswith("/"):  # a folder
                found[member.filename] = member.file_size
        if len(found) > MAX_MEMBERS or sum(found.values()) > self.max_total_bytes:
            most = f"more than {MAX_MEMBERS:,} files or {self.max_total_bytes:,} bytes"
            raise DataError(f"{self.path.name}: {most}; nothing of it is used")
        return list(found)

    def read(self, name: str) -> bytes:
        """One member's bytes; several threads may read. Raises DataError: it is damaged or of another size."""
        num_bytes = self._archive.getinfo(name).file_size
        try:
            with self._archive.open(name) as file:
                content = file.read(num_bytes + 1)
        except (*DAMAGED, ValueError, MemoryError) as error:  # a damaged LZMA header may ask for gigabytes
            raise DataError(f"damaged in the archive ({error})") from error
        if len(content) != num_bytes:
            raise DataError("damaged in the archive (not as long as its list says)")
        return content


def _problem(member: zipfile.ZipInfo, max_bytes: int) -> str | None:
    """Why a member is unsafe, or None."""
    name = member.filename
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or not parts.parts or ".." in parts.parts or ":" in parts.parts[0] or "\0" in name:
        return "points outside the archive"
    if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a link or a device, no file"
    if member.file_size > max_bytes:
        return f"would unpack to {member.file_size:,} bytes (at most {max_bytes:,})"
    return None


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
    label_of = {word: name for name in classes or () for word in (name, f"{name}s")}
    found: dict[str, tuple[list[str], str | None, str | None]] = {}  # folders, split, class
    surplus = {}
    for name in sorted(names):
        path = PurePosixPath(name.replace("\\", "/"))
        folders = list(path.parts[:-1])
        split = next((SPLIT_WORDS[word.lower()] for word in folders if word.lower() in SPLIT_WORDS), None)
        beginning = re.match(r"[a-z]+(?=[._ -]?\d)", path.name.lower())
        words = [*(word.lower() for word in reversed(folders)), beginning.group() if beginning else ""]
        label = next((label_of[word] for word in words if word in label_of), None)
        if path.suffix.lower() not in ENDINGS or any(part.startswith(".") for part in path.parts):
            surplus[name] = "no picture by its name"
        elif classes is not None and label is None:
            surplus[name] = f"of no class ({', '.join(classes)}) by its folder or name"
        else:
            found[name] = folders, split, label
    is_divided = {split for _, split, _ in found.values()} >= set(SPLITS)
    of_class: dict[str, tuple[str, str | None]] = {}
    for name, (folders, split, label) in found.items():
        if classes is None:
            inner = [word for word in folders if not (is_divided and word.lower() in SPLIT_WORDS)]
            label = inner[0] if inner else None
        if is_divided and split is None:
            surplus[name] = "in neither the training nor the test folder"
        elif label is None:
            surplus[name] = "in no folder of a class"
        else:
            of_class[name] = label, split if is_divided else None
    known = sorted({label for label, _ in of_class.values()}) if classes is None else list(classes)
    if len(known) < 2:
        raise DataError(
            f"it has {len(known)} folders with pictures ({', '.join(sorted(ENDINGS))}): a class is such a folder, "
            "directly below it, or below train/ and test/ (or val/), and two are needed"
        )
    pictures = [Picture(name, known.index(label), split) for name, (label, split) in of_class.items()]
    return known, pictures, surplus


def divide(pictures: Sequence[Picture], seed: int = SEED) -> dict[str, list[Picture]]:
    """Divides pictures into training and test, each class in the same proportion, in a seeded random order.

    Pictures whose path names a split keep it. The result depends only on the names, not on the order of `pictures`.
    """
    rng = np.random.default_rng(seed)
    splits: dict[str, list[Picture]] = {split: [] for split in SPLITS}
    ordered = sorted(pictures, key=lambda picture: picture.name)
    for label in sorted({picture.label for picture in ordered}):
        members = [picture for picture in ordered if picture.label == label]
        undecided = [picture for picture in members if picture.split is None]
        for split in SPLITS:
            splits[split] += [picture for picture in members if picture.split == split]
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
    known, pictures, surplus = find(source.names(), classes)
    refused = [f"{name}: {reason}" for name, reason in surplus.items()]
    splits, part, num = divide(pictures), "", len(pictures)
    if max_images is not None and num > max_images:
        part = f"{max_images:,} of {num:,} pictures"
        splits = {split: found[: round(len(found) * max_images / num)] for split, found in splits.items()}
    _check_classes(splits, known, refused)
    seen: dict[bytes, str] = {}
    for split in reversed(SPLITS):  # test first: a copy in both splits must be missing in training
        chosen = splits[split]
        kinds = ("images", "encoded", "ends") if keep_encoded else ("images",)
        paths = {kind: array_path(folder, split, kind) for kind in kinds}
        converted = _converted(source, [picture.name for picture in chosen], side, resizes)
        reasons = _write([picture.name for picture in chosen], converted, paths, side, seen)
        _check_refused(chosen, reasons, known)
        refused += [f"{picture.name}: {reason}" for picture, reason in zip(chosen, reasons, strict=True) if reason]
        splits[split] = [picture for picture, reason in zip(chosen, reasons, strict=True) if not reason]
        labels = np.array([picture.label for picture in splits[split]], label_type(len(known)))
        np.save(array_path(folder, split, "labels"), labels)
    _check_classes(splits, known, refused)
    return Obtained(refused=refused, part=part, classes=known)


class _Converted(NamedTuple):
    content: bytes = b""  # of the file
    digest: bytes = b""  # of the file
    pixels: bytes = b""
    problem: str | None = None  # why the picture is refused


def _converted(source: Source, names: Sequence[str], side: int, resizes: bool) -> Iterator[_Converted]:
    """The pictures in their order, decoded by a thread for each core: Pillow computes without Python's lock."""

    def one(name: str) -> _Converted:
        try:
            content = source.read(name)
            pixels = decode(content, side, resizes=resizes)
        except DataError as error:
            return _Converted(problem=str(error))
        except OSError as error:  # the disk fails
            raise DataError(f"{name}: not readable ({error.strerror})") from error
        return _Converted(content, hashlib.sha256(content).digest(), pixels.tobytes())

    with ThreadPoolExecutor(min(MAX_THREADS, usable_cores())) as pool, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of unusual Exif data; here, since it holds for all threads
        for start in range(0, len(names), CHUNK):
            yield from pool.map(one, names[start : start + CHUNK])


def _write(
    names: Sequence[str], converted: Iterable[_Converted], paths: Mapping[str, Path], side: int, seen: dict[bytes, str]
) -> list[str | None]:
    """Writes the good pictures, and files, of a split; for each why it is refused, such as a copy of one in `seen`."""
    # A copy in both splits would leak into the test.
    reasons, ends = [], []
    with (
        RowFile(paths["images"], (side, side, 3)) as images,
        RowFile(paths["encoded"], ()) if "encoded" in paths else nullcontext() as encoded,
    ):
        for name, (content, digest, pixels, problem) in zip(names, converted, strict=True):
            first = seen.setdefault(digest, name) if problem is None else name
            reasons.append(problem if first == name else f"{SAME} {first}")
            if reasons[-1] is None:
                images.add(pixels)
                if encoded is not None:
                    encoded.add(content)
                    ends.append(encoded.num_bytes)
    if encoded is not None:
        np.save(paths["ends"], np.array(ends, np.int64))
    return reasons


def _check_classes(splits: Mapping[str, list[Picture]], classes: Sequence[str], refused: Sequence[str]) -> None:
    for split, pictures in splits.items():
        labels = {picture.label for picture in pictures}
        if missing := [name for label, name in enumerate(classes) if label not in labels]:
            few = f"a class needs at least {MIN_PICTURES} pictures, in folders and not in archives"
            raise DataError(f"no readable pictures of {', '.join(missing)} for {split} ({few}){_first(refused)}")


def _check_refused(pictures: Sequence[Picture], reasons: Sequence[str | None], classes: Sequence[str]) -> None:
    for label, name in enumerate(classes):
        of_class = [(each.name, reason) for each, reason in zip(pictures, reasons, strict=True) if each.label == label]
        damaged = [f"{path}: {reason}" for path, reason in of_class if reason and not reason.startswith(SAME)]
        if len(damaged) > MAX_REFUSED_SHARE * len(of_class):
            raise DataError(f"{len(damaged):,} of {len(of_class):,} pictures of {name} are refused{_first(damaged)}")


def _first(lines: Sequence[str]) -> str:
    return "".join([":", *(f"\n  {line}" for line in lines[:5])]) if lines else ""
