"""Picture files -> arrays: found, divided into splits, decoded once in parallel, written as they come."""

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, chain
from multiprocessing import get_context
from pathlib import Path
from typing import Protocol

import numpy as np

from accelbench.data.archive import MAX_MEMBER_BYTES, Zip
from accelbench.data.arrays import SPLITS, RowFile, array_path, label_type
from accelbench.data.decode import decode
from accelbench.data.layout import Picture, by_folder, divide, find, part_of
from accelbench.data.obtain import OWN_DIVISION, Obtained
from accelbench.devices.cpu import usable_cores
from accelbench.errors import DataError
from accelbench.lifeline import end_with_starter

TEST_SHARE = 0.2
SEED = 0
MIN_PICTURES = 3  # the fewest that give a test split of one picture: round(0.2 * 3)
CHUNK = 16  # pictures that a worker decodes at a time

# The outcome of a picture: digest and length of its file, and why it is refused, or None.
Converted = tuple[bytes, int, str | None]
SAME = "the same bytes as"
# If more of a class is refused, the source as a whole is damaged.
MAX_REFUSED_SHARE = 0.5


class Source(Protocol):
    """Files by name. It is pickled and sent to other processes."""

    def names(self) -> list[str]:
        """The files' names, as relative paths with slashes."""

    def room(self, name: str) -> int:
        """The maximum number of bytes of a file; 0 if the name is no regular file."""

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

    def room(self, name: str) -> int:
        """The number of bytes of a file; 0 if the name is no regular file, or is too large."""
        try:
            status = (self.path / name).stat()
        except FileNotFoundError:
            return 0
        return status.st_size if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_MEMBER_BYTES else 0

    def read(self, name: str) -> bytes:
        """One file's bytes."""
        path = self.path / name
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise DataError("no file, but a folder or a device")
            if status.st_size > MAX_MEMBER_BYTES:
                raise DataError(f"too large ({status.st_size:,} bytes)")
            return path.read_bytes()
        except FileNotFoundError as error:
            raise DataError("a link to nothing") from error


@dataclass(frozen=True)
class Conversion:
    """The work of the pool's processes. They write pixels to disk, which is faster than sending them through a pipe."""

    source: Source
    images: RowFile  # gets the pixels, one row per picture
    encoded: RowFile | None  # gets the bytes of the files; None to drop them
    resizes: bool  # True: pictures of another size are resized. False: they are refused.

    def run(self, names: Sequence[str], first: int, bounds: Sequence[int]) -> list[Converted]:
        """Converts the pictures of some rows. The row and the bytes of a refused picture are zeros.

        Args:
            names: of the files.
            first: row of the first picture.
            bounds: byte offsets: the file names[i] has the space from bounds[i] to bounds[i + 1].

        Raises:
            DataError: a file can't be read because the disk fails.
            OSError: the arrays can't be written.
        """
        pixels = np.zeros((len(names), *self.images.shape), np.uint8)
        kept = np.zeros(bounds[-1] - bounds[0], np.uint8)
        converted: list[Converted] = []
        for index, name in enumerate(names):
            try:
                content = self.source.read(name)
                pixels[index] = decode(content, self.images.shape[0], resizes=self.resizes)
                if self.encoded is not None:
                    if len(content) > bounds[index + 1] - bounds[index]:
                        raise DataError("grew while it was read")
                    start = bounds[index] - bounds[0]
                    kept[start : start + len(content)] = np.frombuffer(content, np.uint8)
                converted.append((hashlib.sha256(content).digest(), len(content), None))
            except DataError as error:
                converted.append((b"", 0, str(error)))
            except OSError as error:
                raise DataError(f"{name}: not readable ({error.strerror})") from error
        self.images.write(first, pixels)
        if self.encoded is not None:
            self.encoded.write(bounds[0], kept)
        return converted


def _pool(num_workers: int) -> ProcessPoolExecutor:
    """Worker processes, forked from a process that has imported this module."""
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return ProcessPoolExecutor(num_workers, mp_context=context, initializer=end_with_starter, initargs=(_end,))


def _end() -> None:
    os._exit(1)


def open_source(path: Path) -> Source:
    """The pictures of a folder or of a zip archive.

    Raises:
        DataError: `path` is neither, or the folder can't be read.
    """
    if path.is_dir():
        if not os.access(path, os.R_OK | os.X_OK):
            raise DataError(f"{path} is not a readable folder (Permission denied)")
        return Folder(path)
    if path.is_file():
        return Zip(path)
    raise DataError(f"{path} is neither a folder nor a zip archive")


def convert(
    source: Source,
    classes: Sequence[str] | None,
    side: int,
    folder: Path,
    *,
    keep_encoded: bool = False,
    resizes: bool = True,
    max_images: int | None = None,
    num_workers: int | None = None,
) -> Obtained:
    """Writes the arrays of `source`'s pictures into `folder`. Memory does not grow with the number of pictures.

    Args:
        source: the pictures.
        classes: names in lower case and singular, in the order of the labels; None: the names of the folders
            (`layout.by_folder`).
        side: height and width of the images.
        folder: gets {train,test}_{images,labels}.npy.
        keep_encoded: also write the files' bytes, concatenated, and where each ends, for `data.pipeline=jpeg`.
        resizes: True: pictures of another size are resized. False: they are refused.
        max_images: take at most this many pictures, the same share of each split, in its random order.
        num_workers: processes that decode; None for one per core.

    Raises:
        DataError: a split would have no picture of a class, or most pictures of a class can't be read.
        OSError: the arrays can't be written.
    """
    classes, layout = by_folder(source.names()) if classes is None else (classes, find(source.names(), classes))
    refused = [f"{name}: {reason}" for name, reason in layout.surplus.items()]
    splits, part = part_of(divide(layout.pictures, TEST_SHARE, SEED), max_images)
    _check_classes(splits, classes, "no pictures of", refused)
    seen: dict[bytes, str] = {}
    with _pool(num_workers or usable_cores()) as pool:
        for split in reversed(SPLITS):  # test first: a copy in both splits must be missing in training
            images = RowFile(array_path(folder, split, "images"), (side, side, 3))
            encoded = RowFile(array_path(folder, split, "encoded"), ()) if keep_encoded else None
            conversion = Conversion(source, images, encoded, resizes)
            reasons = _convert_split(conversion, splits[split], array_path(folder, split, "ends"), pool, seen)
            _check_refused(split, splits[split], reasons, classes)
            outcomes = list(zip(splits[split], reasons, strict=True))
            refused += [f"{picture.name}: {reason}" for picture, reason in outcomes if reason]
            splits[split] = [picture for picture, reason in outcomes if reason is None]
            labels = np.array([picture.label for picture in splits[split]], label_type(len(classes)))
            np.save(array_path(folder, split, "labels"), labels)
    _check_classes(splits, classes, "no readable pictures of", refused)
    own = any(picture.split for picture in layout.pictures)
    division = OWN_DIVISION if own else f"{TEST_SHARE:.0%} of each class for testing, by file, seed {SEED}"
    return Obtained(refused=refused, division=division, part=part, classes=classes)


def _convert_split(
    conversion: Conversion, pictures: Sequence[Picture], ends: Path, pool: ProcessPoolExecutor, seen: dict[bytes, str]
) -> list[str | None]:
    """Writes the pixels of one split's good pictures, and their files' bytes and `ends` if they are kept.

    Returns:
        For each picture why it is refused, or None.
    """
    source, images, encoded = conversion.source, conversion.images, conversion.encoded
    images.create(len(pictures))
    bounds = [0, *accumulate(source.room(picture.name) if encoded else 0 for picture in pictures)]
    if encoded is not None:
        encoded.create(bounds[-1])
    names = [picture.name for picture in pictures]
    starts = range(0, len(names), CHUNK)
    chunks = [names[start : start + CHUNK] for start in starts]
    spaces = [bounds[start : start + CHUNK + 1] for start in starts]
    try:
        converted = list(chain.from_iterable(pool.map(conversion.run, chunks, starts, spaces)))
    except BrokenExecutor as error:
        raise DataError("a process that decodes pictures was killed, perhaps for want of memory") from error
    reasons = _once(pictures, converted, seen)
    kept = [index for index, reason in enumerate(reasons) if reason is None]
    images.keep((index, index + 1) for index in kept)
    if encoded is not None:
        lengths = [converted[index][1] for index in kept]
        encoded.keep((bounds[index], bounds[index] + length) for index, length in zip(kept, lengths, strict=True))
        np.save(ends, np.cumsum(lengths, dtype=np.int64))
    return reasons


def _check_classes(splits: dict[str, list[Picture]], classes: Sequence[str], problem: str, refused: list[str]) -> None:
    for split in SPLITS:
        labels = {picture.label for picture in splits[split]}
        missing = [name for label, name in enumerate(classes) if label not in labels]
        if missing:
            seen = "".join(f"\n  {line}" for line in refused[:5])
            if any(line.lower().partition(": ")[0].endswith((".zip", ".gz", ".7z")) for line in refused):
                problem = f"there are archives inside it: unpack them first; {problem}"
            few = f"a class needs at least {MIN_PICTURES} pictures"
            raise DataError(f"{problem} {', '.join(missing)} for {split} ({few}){':' if seen else ''}{seen}")


def _once(pictures: Sequence[Picture], converted: Sequence[Converted], seen: dict[bytes, str]) -> list[str | None]:
    """For each picture why it is refused, or None.

    A copy of a picture in `seen` (digest -> name) is refused: in both splits, it would leak into the test.
    """
    reasons = []
    for picture, (digest, _, reason) in zip(pictures, converted, strict=True):
        first = seen.setdefault(digest, picture.name) if reason is None else picture.name
        reasons.append(reason if first == picture.name else f"{SAME} {first}")
    return reasons


def _check_refused(
    split: str, pictures: Sequence[Picture], reasons: Sequence[str | None], classes: Sequence[str]
) -> None:
    nums = Counter(picture.label for picture in pictures)
    damaged = [(p, r) for p, r in zip(pictures, reasons, strict=True) if r and not r.startswith(SAME)]
    for label, num in Counter(picture.label for picture, _ in damaged).items():
        if num > MAX_REFUSED_SHARE * nums[label]:
            lines = [f"{picture.name}: {reason}" for picture, reason in damaged if picture.label == label]
            shown = "".join(f"\n  {line}" for line in lines[:5])
            raise DataError(f"{num:,} of {nums[label]:,} pictures of {classes[label]} for {split} are refused:{shown}")
