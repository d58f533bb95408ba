"""Downloads that fail quickly without a network, resume after an interruption, and are checked by checksum."""

import errno
import fcntl
import hashlib
import os
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import IO
from urllib.error import HTTPError

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from accelbench.errors import BusyError, DownloadError

# After this long without data a mirror is given up.
STALL_S = 4.5
CHUNK_BYTES = 1 << 16
# Downloads from this size on show their progress.
ANNOUNCED_BYTES = 20_000_000
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
    """Downloads the files that are missing in `folder` or not intact, from the first mirror that has them.

    An incomplete download is kept as a hidden file and resumed the next time.

    Raises:
        DownloadError: no mirror gave all files; the message has the reason of each mirror.
        BusyError: another process is downloading one of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = {file: folder / file.name for file in files}
    missing = [file for file, path in paths.items() if not path.is_file() or file.checksum_of(path) != file.checksum]
    failures = []
    for mirror in mirrors:
        try:
            while missing:
                _fetch(mirror + missing[0].name, missing[0], folder)
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


def _fetch(url: str, file: File, folder: Path) -> None:
    part = folder / f".{file.name}.part"
    with part.open("ab") as target:
        try:
            fcntl.flock(target, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kernel frees it if the process ends
        except BlockingIOError as error:
            raise BusyError(f"{file.name}: another process is downloading it; wait for it to end") from error
        if not part.exists() or not os.path.samestat(os.fstat(target.fileno()), part.stat()):
            raise BusyError(f"{file.name}: another process has just downloaded it; start again")
        while True:
            had = target.tell()
            total = _receive(url, file.name, target)
            target.flush()
            num_bytes = target.tell()
            if total is not None and num_bytes < total:
                raise _MirrorError(
                    f"{file.name} broke off at {num_bytes:,} of {total:,} bytes; the next try goes on there"
                )
            found = file.checksum_of(part)
            if found == file.checksum:
                break
            if not had:
                part.unlink()
                raise _MirrorError(
                    f"{file.name} came altered or incomplete ({num_bytes:,} bytes, {file.algorithm} {found})"
                )
            target.truncate(0)  # the earlier part may be wrong: download everything again
            target.seek(0)
        part.replace(folder / file.name)


def _receive(url: str, name: str, target: IO[bytes]) -> int | None:
    """Appends what is missing to `target`; returns the size of the whole file, if the mirror says it."""
    had = target.tell()
    headers = {"User-Agent": "accelbench", **({"Range": f"bytes={had}-"} if had else {})}
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=STALL_S)
    except HTTPError as error:
        error.close()
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return None  # nothing is missing: the checksum decides
        raise
    with response:
        start = had if response.status == HTTPStatus.PARTIAL_CONTENT else 0
        target.truncate(start)  # a mirror that can't resume sends the whole file
        target.seek(start)
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        console = Console(stderr=True)
        is_shown = (total or 0) >= ANNOUNCED_BYTES and console.is_terminal
        if total is not None and total >= ANNOUNCED_BYTES and not console.is_terminal:
            console.print(f"Downloading {name} ({total / 1e6:,.0f} MB) ...", highlight=False, soft_wrap=True)
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        with Progress(*columns, TimeRemainingColumn(), console=console, disable=not is_shown) as progress:
            task = progress.add_task(name, total=total, completed=start)
            while chunk := response.read(CHUNK_BYTES):
                target.write(chunk)
                progress.advance(task, len(chunk))
    return total
