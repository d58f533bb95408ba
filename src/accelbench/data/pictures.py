"""Picture files -> arrays: found, divided into splits, decoded once in parallel, written as they come."""

import hashlib
import os
import stat
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
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

KEPT = ("encoded", "ends")  # the arrays of the pictures' files
MAX_AHEAD = 4  # times as many chunks as workers are decoded before their pictures are written
# The outcome of a picture: the digest of its file, its pixels, its file, and why it is refused, or None.
Converted = tuple[bytes, bytes, bytes, str | None]
SAME = "the same bytes as"
# If more of a class is refused, the source as a whole is damaged.
MAX_REFUSED_SHARE = 0.5


class Source(Protocol):
    """Files by name. It is pickled and sent to other processes."""

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
    """The work of the pool's processes."""

    source: Source
    side: int
    resizes: bool  # True: pictures of another size are resized. False: they are refused.

    def run(self, names: Sequence[str]) -> list[Converted]:
        """Converts some pictures. Raises DataError if a file can't be read because the disk fails."""
        return [self._one(name) for name in names]

    def _one(self, name: str) -> Converted:
        try:
            content = self.source.read(name)
            pixels = decode(content, self.side, resizes=self.resizes)
        except DataError as error:
            return b"", b"", b"", str(error)
        except OSError as error:
            raise DataError(f"{name}: not readable ({error.strerror})") from error
        return hashlib.sha256(content).digest(), pixels.tobytes(), content, None


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
        classes: names in lower case and singular, in the order of the labels; None: those of the folders.
        folder: gets {train,test}_{images,labels}.npy.
        keep_encoded: also write the files' bytes, concatenated, and where each ends, for `data.pipeline=jpeg`.
        resizes: True: pictures of another size are resized. False: they are refused.
        max_images: take at most this many pictures, the same share of each split, in its random order.

    Raises:
        DataError: a split would have no picture of a class, or most pictures of a class can't be read.
    """
    classes, layout = by_folder(source.names()) if classes is None else (classes, find(source.names(), classes))
    refused = [f"{name}: {reason}" for name, reason in layout.surplus.items()]
    splits, part = part_of(divide(layout.pictures, TEST_SHARE, SEED), max_images)
    _check_classes(splits, classes, "no pictures of", refused)
    seen: dict[bytes, str] = {}
    num_workers = num_workers or usable_cores()
    with _pool(num_workers) as pool:
        for split in reversed(SPLITS):  # test first: a copy in both splits must be missing in training
            names = [picture.name for picture in splits[split]]
            converted = _converted(Conversion(source, side, resizes), names, pool, MAX_AHEAD * num_workers)
            paths = {kind: array_path(folder, split, kind) for kind in ("images", *(KEPT if keep_encoded else ()))}
            reasons = _write(names, converted, paths, side, seen)
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


def _converted(
    conversion: Conversion, names: Sequence[str], pool: ProcessPoolExecutor, most: int
) -> Iterator[Converted]:
    """The pictures in their order; of `most` chunks at a time, so that memory does not grow with their number."""
    waiting: deque[Future[list[Converted]]] = deque()
    try:
        for start in range(0, len(names), CHUNK):
            waiting.append(pool.submit(conversion.run, names[start : start + CHUNK]))
            if len(waiting) == most:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
    except BrokenExecutor as error:
        raise DataError("a process that decodes pictures was killed, perhaps for want of memory") from error


def _write(
    names: Sequence[str], converted: Iterable[Converted], paths: Mapping[str, Path], side: int, seen: dict[bytes, str]
) -> list[str | None]:
    """Writes the good pictures of one split, and their files if `paths` name places for them.

    A copy of a picture in `seen` (digest -> name) is refused: in both splits, it would leak into the test.

    Returns:
        For each picture why it is refused, or None.
    """
    reasons, ends = [], []
    with (
        RowFile(paths["images"], (side, side, 3)) as images,
        RowFile(paths["encoded"], ()) if "encoded" in paths else nullcontext() as encoded,
    ):
        for name, (digest, pixels, content, problem) in zip(names, converted, strict=True):
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
