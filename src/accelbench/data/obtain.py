"""What a data set is, and how it is obtained: from original files, else by download, else as a marked stand-in."""

import errno
import hashlib
import importlib
import os
import pkgutil
import shutil
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any, cast
from urllib.error import URLError

from accelbench.data import sets
from accelbench.errors import DataError, DownloadError, UnknownChoiceError
from accelbench.schema.serialize import digest, read_bytes, writing

# After this long without data a mirror is given up.
STALL_S = 4.5
CHUNK_BYTES = 1 << 16
NUM_DRAWN = (1_500, 500)  # pictures of a stand-in, to train and to test
DOWNLOADS = "data/.downloads"  # relative to the project
HEADERS = {"User-Agent": "accelbench"}
OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES)


@dataclass(frozen=True)
class File:
    """A file with a known checksum."""

    name: str  # the file name, which is also appended to a mirror's address
    algorithm: str  # of the checksum, by its name in hashlib
    checksum: str  # in hexadecimal digits

    def checksum_of(self, path: Path) -> str:
        """The checksum of the file at `path`, with this file's algorithm."""
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.new(self.algorithm, usedforsecurity=False)).hexdigest()

    def read(self, path: Path) -> bytes:
        """The very bytes at `path` that were checked. Raises DataError: it is missing, or not this file."""
        try:
            content = read_bytes(path)
        except OSError as error:
            raise DataError(f"{path}: not readable ({error.strerror})") from error
        if hashlib.new(self.algorithm, content, usedforsecurity=False).hexdigest() != self.checksum:
            raise DataError(f"{path}: altered or incomplete: its {self.algorithm} is not {self.checksum}")
        return content


def download(files: Sequence[File], mirrors: Sequence[str], folder: Path) -> None:
    """Downloads what is missing in `folder` or not intact. Raises DownloadError, with the reason of each mirror."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {file: folder / file.name for file in files}
    missing = [file for file, path in paths.items() if not path.is_file() or file.checksum_of(path) != file.checksum]
    failures = []
    for mirror in mirrors:
        try:
            while missing:
                _fetch(mirror + missing[0].name, missing[0], paths[missing[0]])
                del missing[0]
        except (HTTPException, OSError) as error:
            if isinstance(error, OSError) and error.errno in OF_THE_DISK:
                raise
            failures.append(f"\n  {mirror}: {getattr(error, 'reason', error)}")
        else:
            return
    raise DownloadError(f"the download failed:{''.join(failures)}")


def _fetch(url: str, file: File, path: Path) -> None:
    from rich.console import Console  # here, since the parent asks this module for names
    from rich.progress import wrap_file

    request = urllib.request.Request(url, headers=HEADERS)
    console = Console(stderr=True)
    with urllib.request.urlopen(request, timeout=STALL_S) as response, writing(path) as part:
        total = int(response.headers.get("Content-Length") or 0)
        shown = wrap_file(response, total, description=f"Downloading {file.name}", console=console, transient=True)
        with shown as body, part.open("wb") as target:
            shutil.copyfileobj(body, target, CHUNK_BYTES)
        found = file.checksum_of(part)
        if found != file.checksum:
            what = f"{part.stat().st_size:,} bytes, {file.algorithm} {found}"
            raise URLError(f"{file.name} came altered or incomplete ({what})")


@dataclass(frozen=True, kw_only=True)
class Obtained:
    """A data set whose arrays are written."""

    classes: Sequence[str] = ()  # the classes' names, in the order of the labels
    source: str = ""  # where the data came from, in words; no absolute path
    # why this is a stand-in, or only a part of the set; None if it is the real data set
    stand_in_reason: str | None = None
    refused: Sequence[str] = ()  # one line for each file that was left out, with the reason
    part: str = ""  # how much of the source was read, such as `400 of 24,946 pictures`; empty if all of it was


@dataclass(frozen=True)
class Target:
    """Where a data set's arrays are written, and how."""

    folder: Path  # gets {train,test}_{images,labels}.npy
    settings: Mapping[str, int] = field(default_factory=dict)  # of this data set, such as `image_size`


class DataSet:
    """What `DATA_SET` of each module of `accelbench.data.sets` has."""

    home: str | None = None  # where original files are looked for first, relative to the project; None without any
    settings: Mapping[str, int] = {}  # name in params.yaml -> default

    def obtain(self, name: str, source: str, root: Path, target: Target) -> Obtained:
        """Writes the arrays. `source` is `auto`, `download`, or a path from `root`. Raises DataError."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class FileSet(DataSet):
    """A data set of original files: local ones, else a download, else a stand-in."""

    title: str  # the name in messages
    home: str
    classes: Sequence[str]
    files: Sequence[File]  # that are downloaded from `mirrors`: addresses that a file's name is appended to
    mirrors: Sequence[str]
    # verifies the original files at a path and writes their arrays; raises DataError
    read: Callable[[Path, Target], Obtained]
    stand_in: Callable[[Target], str]  # writes the arrays of a stand-in and returns its description
    shape: tuple[int, ...]  # of an image, channels first, unless the setting `image_size` says another side
    num_samples: tuple[int, int]  # of the original set, to train and to test
    num_drawn: tuple[int, int] = NUM_DRAWN
    settings: Mapping[str, int] = field(default_factory=dict)

    def obtain(self, name: str, source: str, root: Path, target: Target) -> Obtained:
        """Writes the arrays. `auto` uses the files in `home`, else a download, earlier or new, else the stand-in."""
        if source not in ("auto", "download"):
            is_private = source.startswith(("/", "~"))  # a manifest names no folder above it
            shown = Path(source).name if is_private else source
            return self._read(root / os.path.expanduser(source), f"from {shown}", target)
        home = root / self.home
        if source == "auto" and (home.is_file() or any(home.glob("*"))):
            return self._read(home, f"from {self.home}", target)  # the user put files there: wrong ones are an error
        folder = root / DOWNLOADS / name
        try:
            download(self.files, self.mirrors, folder)
            return self._read(folder if len(self.files) > 1 else folder / self.files[0].name, "downloaded", target)
        except DownloadError as error:
            if source == "download":
                raise
            return Obtained(
                classes=self.classes,
                source=f"stand-in for {self.title}: {self.stand_in(target)}",
                stand_in_reason=f"{self.home} is not there; {error}",
            )

    def num_expected(self, name: str, source: str, root: Path) -> tuple[int, int]:
        """How many samples `obtain` will give, to train and to test; a mirror that has a file's head has the file."""
        missing = [file.name for file in self.files if not (root / DOWNLOADS / name / file.name).is_file()]
        is_here = source != "auto" or not missing or (root / self.home).is_file() or any((root / self.home).glob("*"))
        return self.num_samples if is_here or any(_has(each + missing[0]) for each in self.mirrors) else self.num_drawn

    def _read(self, path: Path, how: str, target: Target) -> Obtained:
        found = self.read(path, target)
        return replace(
            found,
            classes=self.classes,
            source=f"{found.part} of {self.title}, {how}" if found.part else f"{self.title}, {how}",
            stand_in_reason="max_images asks for a part of the set" if found.part else None,
        )


def _has(url: str) -> bool:
    request = urllib.request.Request(url, headers=HEADERS, method="HEAD")
    with suppress(HTTPException, OSError), urllib.request.urlopen(request, timeout=STALL_S):
        return True
    return False


def names() -> list[str]:
    """The names of the data sets: each is one module of `accelbench.data.sets`. Imports none of them."""
    return sorted(module.name for module in pkgutil.iter_modules(sets.__path__))


def find(name: str) -> DataSet:
    """The data set `name`, as its module defines it. Raises UnknownChoiceError: no module has this name."""
    if name not in names():
        raise UnknownChoiceError("data", name, names())
    return cast(DataSet, importlib.import_module(f"{sets.__name__}.{name}").DATA_SET)


def source_files(root: Path, name: str, source: str) -> dict[str, Any]:
    """What `listed` says of a set's source, so that DVC prepares the set again when its files change."""
    home = find(name).home
    # No files, or known by their checksum wherever they come from. If there is no source, preparing says so.
    if home is None or source == "download" or not source.strip():
        return {"source": source}
    return listed(root / (home if source == "auto" else os.path.expanduser(source)), source)


def listed(place: Path, source: str) -> dict[str, Any]:
    """How many files are at `place`, and a digest of their names, sizes and times of change.

    `source` is what the list calls it. The files' content is checked when they are read.
    """
    files = sorted(path for path in (place.rglob("*") if place.is_dir() else [place]) if path.is_file())
    found = []
    for path in files:
        status = path.stat()
        found.append([path.relative_to(place).as_posix(), status.st_size, status.st_mtime_ns])
    return {"source": source, "num_files": len(found), "digest": digest(found)}
