"""Obtains a data set from the user's files, else from a download. If that fails, generates images as a stand-in."""

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
from accelbench.data.arrays import DRAWN
from accelbench.errors import DataError, DownloadError, UnknownChoiceError, UserError
from accelbench.schema.serialize import digest, sha256_of, writing

# A mirror that sends nothing for this many seconds is given up.
STALL_S = 4.5
DOWNLOADS = "data/.downloads"  # relative to the project's folder


@dataclass(frozen=True)
class File:
    """A file whose checksum is known."""

    name: str  # file name; a mirror's address and this name form the file's address
    sha256: str  # 64 hexadecimal digits

    def read(self, path: Path) -> bytes:
        """Reads and checks the file at `path`. Raises DataError: the file is missing, or its digest is wrong."""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DataError(f"{path}: not readable ({error.strerror})") from error
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise DataError(f"{path}: altered or incomplete: its sha256 is not {self.sha256}")
        return content


def download(files: Sequence[File], mirrors: Sequence[str], folder: Path) -> None:
    """Downloads files that are missing or damaged in `folder`. Raises DownloadError: no mirror has all of the files."""
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
    from rich.console import Console  # not at the top: the parent process imports this module only for names
    from rich.progress import wrap_file

    request = urllib.request.Request(url, headers={"User-Agent": "accelbench"})
    console = Console(stderr=True)
    with urllib.request.urlopen(request, timeout=STALL_S) as response, writing(path) as part:
        total = int(response.headers.get("Content-Length") or 0)
        shown = wrap_file(response, total, description=f"Downloading {file.name}", console=console, transient=True)
        with shown as body, part.open("wb") as target:
            shutil.copyfileobj(body, target)
        if sha256_of(part) != file.sha256:
            raise URLError(f"{file.name} arrived altered or incomplete ({part.stat().st_size:,} bytes)")


@dataclass(frozen=True, kw_only=True)
class Obtained:
    """The description of a data set whose arrays have been written."""

    classes: Sequence[str] = ()  # names of the classes, in the order of their labels
    source: str = ""  # where the data came from, in words, without absolute paths
    # why this is a stand-in or a part of the data set; None for the whole real data set
    stand_in_reason: str | None = None
    refused: Sequence[str] = ()  # a line for each file that was left out: its name and the reason
    part: str = ""  # the part of the source that was read, such as `400 of 24,946 pictures`; empty for all of it


@dataclass(frozen=True)
class Target:
    """Where the arrays of a data set are written, and the settings of the data set."""

    folder: Path  # folder of {train,test}_{images,labels}.npy
    settings: Mapping[str, int] = field(default_factory=dict)  # settings of this data set, such as `image_size`


class DataSet:
    """A data set without files. Each module of `accelbench.data.sets` has its data set in `DATA_SET`."""

    home: str | None = None  # place of original files, relative to the project; None if the set has no files
    settings: Mapping[str, int] = {}  # name in params.yaml -> default

    def obtain(self, name: str, source: str, root: Path, target: Target) -> Obtained:
        """Writes the arrays. `source` is `auto`, `download`, or a path relative to `root`. Raises DataError."""
        return Obtained(source=DRAWN)


@dataclass(frozen=True, kw_only=True)
class FileSet(DataSet):
    """A data set. It is read from the user's files, else from downloaded files, else a stand-in replaces it."""

    title: str  # name in messages
    home: str
    classes: Sequence[str]
    files: Sequence[File]  # files to download
    mirrors: Sequence[str]  # beginnings of addresses, to which a file's name is appended
    # verifies the original files at a path and writes their arrays; raises DataError
    read: Callable[[Path, Target], Obtained]
    stand_in: Callable[[Target], str]  # writes the arrays of a stand-in and returns its description
    shape: tuple[int, ...]  # shape of an image, channels first, unless the setting `image_size` changes its sides
    settings: Mapping[str, int] = field(default_factory=dict)

    def obtain(self, name: str, source: str, root: Path, target: Target) -> Obtained:
        """Writes the arrays. `auto` reads them from files in `home`, else from a download, else draws the stand-in."""
        if source not in ("auto", "download"):
            is_private = source.startswith(("/", "~"))  # the manifest then has only the file's name
            shown = Path(source).name if is_private else source
            return self._read(root / os.path.expanduser(source), f"from {shown}", target)
        home = root / self.home
        if source == "auto" and (home.is_file() or any(home.glob("*"))):  # no fallback: wrong files are an error
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
                stand_in_reason=f"{self.home} is missing; {error}",
            )
        return self._read(folder if len(self.files) > 1 else folder / self.files[0].name, "downloaded", target)

    def _read(self, path: Path, how: str, target: Target) -> Obtained:
        obtained = self.read(path, target)
        title = f"{self.title}, {how}"
        if obtained.part:
            title = f"{obtained.part} of {title}"
            obtained = replace(obtained, stand_in_reason="max_images selects only a part of the data set")
        return replace(obtained, classes=self.classes, source=title)


def names() -> list[str]:
    """Returns the names of the data sets, which are the modules of `accelbench.data.sets`. Imports none of them."""
    return sorted(module.name for module in pkgutil.iter_modules(sets.__path__))


def find(name: str) -> DataSet:
    """Returns the data set of the module `name`. Raises UnknownChoiceError: there is no such module."""
    if name not in names():
        raise UnknownChoiceError("data", name, names())
    return cast(DataSet, importlib.import_module(f"{sets.__name__}.{name}").DATA_SET)


def source_files(root: Path, name: str, source: str) -> dict[str, Any]:
    """Returns the source and the state of its files (`listed`). DVC prepares the set again if these change."""
    home = find(name).home
    # A set without files has nothing to list; downloaded files have checksums; `prepare` reports an empty source.
    if home is None or source == "download" or not source.strip():
        return {"source": source}
    return listed(root / (home if source == "auto" else os.path.expanduser(source)), source, f"data.{name}.source")


def listed(place: Path, source: str, flag: str) -> dict[str, Any]:
    """Returns the number of files at `place`, and a digest of their names, sizes and times of change.

    The contents are only checked when the files are read. `source` is the place as the user wrote it.

    Raises UserError: the files can't be listed. The message begins with `flag`.
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
