"""What a data set is, and how it is obtained: from original files, else by download, else as a marked stand-in."""

import hashlib
import importlib
import os
import pkgutil
import shutil
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path
from ssl import SSLError
from typing import Any, cast
from urllib.error import URLError

from accelbench.data import sets
from accelbench.errors import DataError, DownloadError, UnknownChoiceError, UserError
from accelbench.schema.serialize import digest, read_bytes, sha256_of, writing

# After this long without data a mirror is given up.
STALL_S = 4.5
DOWNLOADS = "data/.downloads"  # relative to the project


@dataclass(frozen=True)
class File:
    """A file with a known checksum."""

    name: str  # the file name, which is also appended to a mirror's address
    sha256: str  # in hexadecimal digits

    def read(self, path: Path) -> bytes:
        """The very bytes at `path` that were checked. Raises DataError: it is missing, or not this file."""
        try:
            content = read_bytes(path)
        except OSError as error:
            raise DataError(f"{path}: not readable ({error.strerror})") from error
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise DataError(f"{path}: altered or incomplete: its sha256 is not {self.sha256}")
        return content


def download(files: Sequence[File], mirrors: Sequence[str], folder: Path) -> None:
    """Downloads what is missing in `folder` or not intact. Raises DownloadError, with the reason of each mirror."""
    folder.mkdir(parents=True, exist_ok=True)
    failures = ""
    for mirror in mirrors:
        try:
            for file in files:
                path = folder / file.name
                if not path.is_file() or sha256_of(path) != file.sha256:
                    _fetch(mirror + file.name, file, path)
            return
        except (HTTPException, URLError, ConnectionError, TimeoutError, SSLError) as error:
            failures += f"\n  {mirror}: {getattr(error, 'reason', error)}"
    raise DownloadError(f"the download failed:{failures}")


def _fetch(url: str, file: File, path: Path) -> None:
    from rich.console import Console  # here, since the parent asks this module for names
    from rich.progress import wrap_file

    request = urllib.request.Request(url, headers={"User-Agent": "accelbench"})
    console = Console(stderr=True)
    with urllib.request.urlopen(request, timeout=STALL_S) as response, writing(path) as part:
        total = int(response.headers.get("Content-Length") or 0)
        shown = wrap_file(response, total, description=f"Downloading {file.name}", console=console, transient=True)
        with shown as body, part.open("wb") as target:
            shutil.copyfileobj(body, target)
        if sha256_of(part) != file.sha256:
            raise URLError(f"{file.name} came altered or incomplete ({part.stat().st_size:,} bytes)")


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
    settings: Mapping[str, int] = field(default_factory=dict)

    def obtain(self, name: str, source: str, root: Path, target: Target) -> Obtained:
        """Writes the arrays. `auto` uses the files in `home`, else a download, earlier or new, else the stand-in."""
        if source not in ("auto", "download"):
            is_private = source.startswith(("/", "~"))  # a manifest names no folder above it
            shown = Path(source).name if is_private else source
            return self._read(root / os.path.expanduser(source), f"from {shown}", target)
        home = root / self.home
        if source == "auto" and (home.is_file() or any(home.glob("*"))):  # the user's files: wrong ones are an error
            return self._read(home, f"from {self.home}", target)
        folder = root / DOWNLOADS / name
        try:
            download(self.files, self.mirrors, folder)
        except DownloadError as error:
            if source == "download":
                raise
            return Obtained(
                classes=self.classes,
                source=f"stand-in for {self.title}: {self.stand_in(target)}",
                stand_in_reason=f"{self.home} is not there; {error}",
            )
        return self._read(folder if len(self.files) > 1 else folder / self.files[0].name, "downloaded", target)

    def _read(self, path: Path, how: str, target: Target) -> Obtained:
        obtained = self.read(path, target)
        title = f"{self.title}, {how}"
        if obtained.part:
            title = f"{obtained.part} of {title}"
            obtained = replace(obtained, stand_in_reason="max_images asks for a part of the set")
        return replace(obtained, classes=self.classes, source=title)


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
    return listed(root / (home if source == "auto" else os.path.expanduser(source)), source, f"data.{name}.source")


def listed(place: Path, source: str, flag: str) -> dict[str, Any]:
    """How many files are at `place`, and a digest of their names, sizes and times of change.

    `source` is what the list calls it. The files' content is checked when they are read. Raises a UserError, which
    names `flag`: they can't be listed.
    """
    files = []
    try:
        for path in sorted(place.rglob("*") if place.is_dir() else [place]):
            if path.is_file():
                status = path.stat()
                files.append([path.relative_to(place).as_posix(), status.st_size, status.st_mtime_ns])
    except OSError as error:
        raise UserError(f"{flag}={source}: not readable ({error})") from error
    return {"source": source, "num_files": len(files), "digest": digest(files)}
