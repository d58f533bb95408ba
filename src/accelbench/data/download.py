"""Downloads that fail quickly without a network, resume after an interruption, and are checked by checksum."""

import errno
import fcntl
import hashlib
import os
import queue
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from accelbench.errors import BusyError, DownloadError

# After this long without data a mirror is given up, so that two blocked mirrors take less than 10 s.
STALL_S = 4.5
CHUNK_BYTES = 1 << 16
MAX_CHUNKS_AHEAD = 256  # bounds the memory if the disk is slow
# Downloads from this size on show their progress.
ANNOUNCED_BYTES = 20_000_000

Head = tuple[int, int | None]  # where the received bytes begin in the file, and the size of the whole file


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
    missing = [file for file in files if not _is_intact(file, folder / file.name)]
    failures = []
    for mirror in mirrors:
        try:
            while missing:
                _fetch(mirror + missing[0].name, missing[0], folder)
                del missing[0]
        except (_MirrorError, HTTPException, OSError) as error:
            if _is_of_the_disk(error):
                raise
            failures.append(f"\n  {mirror}: {getattr(error, 'reason', error)}")
        else:
            return
    raise DownloadError(f"the download failed:{''.join(failures)}")


class _MirrorError(Exception):
    """A mirror sent a wrong or incomplete file."""


def _is_of_the_disk(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES)


def _is_intact(file: File, path: Path) -> bool:
    return path.is_file() and file.checksum_of(path) == file.checksum


def _fetch(url: str, file: File, folder: Path) -> None:
    part = folder / f".{file.name}.part"
    with part.open("ab") as target:
        try:
            fcntl.flock(target, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kernel frees it if the process ends
        except BlockingIOError as error:
            raise BusyError(f"{file.name}: another process is downloading it; wait for it to end") from error
        if not _is_same(target, part):
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


def _is_same(opened: IO[bytes], path: Path) -> bool:
    return path.exists() and os.path.samestat(os.fstat(opened.fileno()), path.stat())


def _receive(url: str, name: str, target: IO[bytes]) -> int | None:
    events = _events(url, target.tell())
    head: Head = next(events)
    start, total = head
    target.truncate(start)  # a mirror that can't resume sends the whole file
    target.seek(start)
    with _progress(name, start, total) as advance:
        for chunk in events:
            target.write(chunk)
            advance(len(chunk))
    return total


@contextmanager
def _progress(name: str, start: int, total: int | None) -> Iterator[Callable[[int], None]]:
    console = Console(stderr=True)
    if total is None or total < ANNOUNCED_BYTES:
        yield lambda _: None
        return
    if not console.is_terminal:
        console.print(f"Downloading {name} ({total / 1e6:,.0f} MB) ...", highlight=False, soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=total, completed=start)
        yield lambda num_bytes: progress.advance(task, num_bytes)


def _events(url: str, had: int) -> Iterator[Any]:
    """The `Head` of the response, then the chunks of its body; TimeoutError after `STALL_S` seconds without data.

    A thread reads, which can be abandoned: a socket's timeout covers neither the look-up of the name nor trying one
    address after another.
    """
    events: queue.Queue[Head | bytes | Exception] = queue.Queue(MAX_CHUNKS_AHEAD)
    threading.Thread(target=_pump, args=(url, had, events), daemon=True).start()
    while True:
        try:
            event = events.get(timeout=STALL_S)
        except queue.Empty:
            raise TimeoutError(f"no answer for {STALL_S:g} s") from None
        if isinstance(event, Exception):
            raise event
        if event == b"":
            return
        yield event


def _pump(url: str, had: int, events: "queue.Queue[Head | bytes | Exception]") -> None:
    headers = {"User-Agent": "accelbench", **({"Range": f"bytes={had}-"} if had else {})}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=STALL_S) as response:
            start = had if response.status == HTTPStatus.PARTIAL_CONTENT else 0
            length = response.headers.get("Content-Length")
            events.put((start, start + int(length) if length else None))
            while chunk := response.read(CHUNK_BYTES):
                events.put(chunk)
    except HTTPError as error:
        error.close()
        if error.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            events.put(error)
            return
        events.put((had, None))  # nothing is missing: the checksum decides
    except Exception as error:  # every error goes to the reader
        events.put(error)
        return
    events.put(b"")
