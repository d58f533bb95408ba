"""Downloads that fail quickly without a network, and are checked by checksum."""

import errno
import hashlib
import shutil
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from rich.console import Console
from rich.progress import wrap_file

from accelbench.errors import DownloadError
from accelbench.schema.serialize import writing

# After this long without data a mirror is given up.
STALL_S = 4.5
CHUNK_BYTES = 1 << 16
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
        except (_MirrorError, HTTPException, OSError) as error:
            if isinstance(error, OSError) and error.errno in OF_THE_DISK:
                raise
            failures.append(f"\n  {mirror}: {getattr(error, 'reason', error)}")
        else:
            return
    raise DownloadError(f"the download failed:{''.join(failures)}")


class _MirrorError(Exception):
    """A mirror sent a wrong or incomplete file."""


def _fetch(url: str, file: File, path: Path) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "accelbench"})
    console = Console(stderr=True)
    with urllib.request.urlopen(request, timeout=STALL_S) as response, writing(path) as part:
        total = int(response.headers.get("Content-Length") or 0)
        shown = wrap_file(response, total, description=f"Downloading {file.name}", console=console, transient=True)
        with shown as body, part.open("wb") as target:
            shutil.copyfileobj(body, target, CHUNK_BYTES)
        found = file.checksum_of(part)
        if found != file.checksum:
            what = f"{part.stat().st_size:,} bytes, {file.algorithm} {found}"
            raise _MirrorError(f"{file.name} came altered or incomplete ({what})")
