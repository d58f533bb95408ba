"""Picture files -> arrays: found, divided into splits, decoded once in parallel, written as they come."""

import hashlib
import os
import re
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path, PurePosixPath
from typing import Protocol

import numpy as np

from accelbench.data.archive import MAX_MEMBER_BYTES, Zip
from accelbench.data.arrays import SPLITS, RowFile, array_path, label_type
from accelbench.data.decode import decode
from accelbench.data.obtain import OWN_DIVISION, Obtained
from accelbench.devices.cpu import usable_cores
from accelbench.errors import DataError
from accelbench.lifeline import end_with_starter
from accelbench.project import resolved

TEST_SHARE = 0.2
SEED = 0
MIN_PICTURES = 3  # the fewest that give a test split of one picture: round(0.2 * 3)
MAX_REFUSED_SHARE = 0.5  # if more of a class is refused, the source as a whole is damaged
CHUNK = 16  # pictures that a worker decodes at a time
MAX_AHEAD = 4  # times as many chunks as workers are decoded before their pictures are written
# The outcome of a picture: the digest of its file, its pixels, its file, and why it is refused, or None.
Converted = tuple[bytes, bytes, bytes, str | None]
SAME = "the same bytes as"
ENDINGS = {".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp"}
SPLIT_WORDS = {
    **dict.fromkeys(("train", "training", "training_set"), "train"),
    **dict.fromkeys(("test", "test_set", "val", "valid", "validation"), "test"),
}
OUTSIDE = "in neither the training nor the test folder"


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
    allows_links_out: bool = True  # of the folder; what they lead to is read

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
        if not (self.allows_links_out or resolved(path).is_relative_to(resolved(self.path))):
            raise DataError("a link out of the folder")
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise DataError("no file, but a folder or a device")
            if status.st_size > MAX_MEMBER_BYTES:
                raise DataError(f"too large ({status.st_size:,} bytes)")
            return path.read_bytes()
        except FileNotFoundError as error:
            raise DataError("a link to nothing") from error


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


@dataclass(frozen=True)
class Picture:
    """A picture file, not read yet."""

    name: str  # path within the source
    label: int  # index of the class
    split: str | None  # one of `SPLITS`; None if the path doesn't say


# The pictures of a known class, sorted by name; and the name of any other file -> why it is left out.
Layout = tuple[Sequence[Picture], Mapping[str, str]]


def find(names: Iterable[str], classes: Sequence[str]) -> Layout:
    """Finds the pictures of the classes among other files, in any of the usual layouts.

    The class is the name of the nearest folder that is named after one (`Cat`, `cats`), or the beginning of the file
    name (`cat.0.jpg`); if the two differ, the file is surplus. The split is the name of a folder (`train`,
    `validation`, ...). If both splits have pictures, pictures without a split are surplus; else the folders' splits
    are ignored.
    """
    label_of = {word: label for label, name in enumerate(classes) for word in (name, f"{name}s")}
    found, surplus = [], {}
    for name in sorted(names):
        path = PurePosixPath(name.replace("\\", "/").lower())
        folders = path.parts[-2::-1]  # the nearest one first
        of_folder = next((label_of[part] for part in folders if part in label_of), None)
        beginning = re.match(r"[a-z]+(?=[._ -]?\d)", path.name)
        of_name = label_of.get(beginning.group()) if beginning else None
        label = of_name if of_folder is None else of_folder
        if path.suffix not in ENDINGS:
            surplus[name] = "no picture by its name"
        elif path.name.startswith("._"):  # macOS adds these to archives
            surplus[name] = "no picture, but a note of macOS about one"
        elif None not in (of_folder, of_name) and of_folder != of_name:
            surplus[name] = "of one class by its name and of another by its folder"
        elif label is None:
            surplus[name] = f"of no class ({', '.join(classes)}) by its name or folder"
        else:
            split = next((SPLIT_WORDS[part] for part in reversed(folders) if part in SPLIT_WORDS), None)
            found.append(Picture(name, label, split))
    if {picture.split for picture in found} >= set(SPLITS):
        surplus |= {picture.name: OUTSIDE for picture in found if picture.split is None}
        return [picture for picture in found if picture.split], surplus
    return [replace(picture, split=None) for picture in found], surplus


def by_folder(names: Iterable[str]) -> tuple[list[str], Layout]:
    """The classes and their pictures: each folder is a class, or train/ and test/ (or val/) have a folder for each.

    Folders without a picture, and those whose names begin with a dot, are no classes.

    Raises:
        DataError: there are fewer than two classes.
    """
    found: dict[str, tuple[str, ...]] = {}
    surplus = {}
    for name in sorted(names):
        path = PurePosixPath(name)
        if path.suffix.lower() not in ENDINGS or any(part.startswith(".") for part in path.parts):
            surplus[name] = "no picture by its name"
        else:
            found[name] = path.parts[:-1]
    splits = {folders[0]: SPLIT_WORDS.get(folders[0].lower()) for folders in found.values() if folders}
    is_divided = set(splits.values()) >= set(SPLITS)
    folder_of, split_of = {}, {}
    for name, folders in found.items():
        split = splits[folders[0]] if is_divided and folders else None
        if is_divided and folders and split is None:
            surplus[name] = OUTSIDE
        elif len(folders) <= is_divided:
            surplus[name] = "in no folder of a class"
        else:
            folder_of[name], split_of[name] = folders[is_divided], split
    classes = sorted(set(folder_of.values()))
    if len(classes) < 2:
        has = f"pictures of one class, {classes[0]}" if classes else "no folders with pictures"
        raise DataError(
            f"it has {has}: a class is a folder of pictures ({', '.join(sorted(ENDINGS))}), and two are needed, "
            "directly below it, or below train/ and test/ (or val/)"
        )
    label_of = {name: label for label, name in enumerate(classes)}
    pictures = [Picture(name, label_of[folder], split_of[name]) for name, folder in folder_of.items()]
    return classes, (pictures, surplus)


def divide(pictures: Sequence[Picture], test_share: float, seed: int) -> dict[str, list[Picture]]:
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
        num_test = round(test_share * len(shuffled))
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
    names = source.names()
    classes, (pictures, surplus) = by_folder(names) if classes is None else (classes, find(names, classes))
    refused = [f"{name}: {reason}" for name, reason in surplus.items()]
    splits, part, num = divide(pictures, TEST_SHARE, SEED), "", len(pictures)
    if max_images is not None and num > max_images:
        part = f"{max_images:,} of {num:,} pictures"
        splits = {split: found[: round(len(found) * max_images / num)] for split, found in splits.items()}
    _check_classes(splits, classes, "no pictures of", refused)
    seen: dict[bytes, str] = {}
    num_workers = num_workers or usable_cores()
    with _pool(num_workers) as pool:
        for split in reversed(SPLITS):  # test first: a copy in both splits must be missing in training
            names = [picture.name for picture in splits[split]]
            converted = _converted(_Conversion(source, side, resizes), names, pool, MAX_AHEAD * num_workers)
            kinds = ("images", "encoded", "ends") if keep_encoded else ("images",)
            paths = {kind: array_path(folder, split, kind) for kind in kinds}
            reasons = _write(names, converted, paths, side, seen)
            _check_refused(split, splits[split], reasons, classes)
            refused += [f"{name}: {reason}" for name, reason in zip(names, reasons, strict=True) if reason]
            splits[split] = [picture for picture, reason in zip(splits[split], reasons, strict=True) if not reason]
            labels = np.array([picture.label for picture in splits[split]], label_type(len(classes)))
            np.save(array_path(folder, split, "labels"), labels)
    _check_classes(splits, classes, "no readable pictures of", refused)
    own = any(picture.split for picture in pictures)
    division = OWN_DIVISION if own else f"{TEST_SHARE:.0%} of each class for testing, by file, seed {SEED}"
    return Obtained(refused=refused, division=division, part=part, classes=classes)


@dataclass(frozen=True)
class _Conversion:
    """The work of the pool's processes."""

    source: Source
    side: int
    resizes: bool

    def run(self, names: Sequence[str]) -> list[Converted]:
        return [self._one(name) for name in names]

    def _one(self, name: str) -> Converted:
        try:
            content = self.source.read(name)
            pixels = decode(content, self.side, resizes=self.resizes)
        except DataError as error:
            return b"", b"", b"", str(error)
        except OSError as error:  # the disk fails
            raise DataError(f"{name}: not readable ({error.strerror})") from error
        return hashlib.sha256(content).digest(), pixels.tobytes(), content, None


def _pool(num_workers: int) -> ProcessPoolExecutor:
    """Worker processes, forked from a process that has imported this module."""
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return ProcessPoolExecutor(num_workers, mp_context=context, initializer=end_with_starter, initargs=(_end,))


def _end() -> None:
    os._exit(1)


def _converted(
    conversion: _Conversion, names: Sequence[str], pool: ProcessPoolExecutor, most: int
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
        if missing := [name for label, name in enumerate(classes) if label not in labels]:
            if any(line.lower().partition(": ")[0].endswith((".zip", ".gz", ".7z")) for line in refused):
                problem = f"there are archives inside it: unpack them first; {problem}"
            few = f"a class needs at least {MIN_PICTURES} pictures"
            raise DataError(f"{problem} {', '.join(missing)} for {split} ({few}){_first(refused)}")


def _check_refused(
    split: str, pictures: Sequence[Picture], reasons: Sequence[str | None], classes: Sequence[str]
) -> None:
    for label, name in enumerate(classes):
        of_class = [(each.name, reason) for each, reason in zip(pictures, reasons, strict=True) if each.label == label]
        damaged = [f"{path}: {reason}" for path, reason in of_class if reason and not reason.startswith(SAME)]
        if len(damaged) > MAX_REFUSED_SHARE * len(of_class):
            num = f"{len(damaged):,} of {len(of_class):,}"
            raise DataError(f"{num} pictures of {name} for {split} are refused{_first(damaged)}")


def _first(lines: Sequence[str]) -> str:
    return "".join([":", *(f"\n  {line}" for line in lines[:5])]) if lines else ""
