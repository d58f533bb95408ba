"""A bundle is a zip file with the records of a folder and their tables. Equal records give equal bytes.

Its file `SHA256SUMS` lists the SHA-256 of all other files. `sha256sum -c` can check them.
"""

import hashlib
import os
import stat
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from accelbench.errors import RefusedError, UserError
from accelbench.project import COMPARISON, CONFIRMED, PLAN, RACE, REQUESTS
from accelbench.report import csv_file
from accelbench.report.export import tables
from accelbench.report.read import Sweep, confirmed_of
from accelbench.schema.plan_file import sweep_folders
from accelbench.schema.record import listed
from accelbench.schema.serialize import writing

RESULTS, SUMS = "results", "SHA256SUMS"
EPOCH = (1980, 1, 1, 0, 0, 0)  # time of every file: the earliest that a zip archive can have
MAX_FILE_BYTES = 512 << 20  # limit of an unpacked file


def pack(folder: Path, sweeps: Sequence[Sweep], out: Path) -> int:
    """Writes a bundle, and returns the number of its files.

    Args:
        folder: folder of the records.
        sweeps: the sweeps that were read from it.

    Raises OSError: `out` can't be written. Raises UserError: `out` exists, or a record or another file can't be read.
    """
    if out.exists():
        raise UserError(f"--out {out}: exists already")
    if lost := [line for sweep in sweeps for line in sweep.unread]:
        raise UserError("\n".join(["some records can't be read, so the tables would differ:", *listed(lost)]))
    try:
        files = dict(_sources(folder, sweeps))
    except OSError as error:
        raise RefusedError(error) from error
    texts = {name: csv_file.text(rows) for name, rows in tables(sweeps).items()}
    with writing(out) as path, zipfile.ZipFile(path, "w") as archive:
        sums = [_add(archive, name, texts.get(name) or files[name]) for name in sorted({*files, *texts})]
        _add(archive, SUMS, "".join(sums))
    return len(sums) + 1


def _add(archive: zipfile.ZipFile, name: str, source: Path | str) -> str:
    """Writes a file or a text into the archive. Returns its line for `SHA256SUMS`."""
    member = zipfile.ZipInfo(name, EPOCH)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.create_system = 3  # Unix, so that the bytes are the same on every system
    member.external_attr = (stat.S_IFREG | 0o644) << 16
    try:
        content = source.encode() if isinstance(source, str) else source.read_bytes()
    except OSError as error:
        raise RefusedError(error) from error
    archive.writestr(member, content)
    return f"{hashlib.sha256(content).hexdigest()}  {name}\n"


def _sources(folder: Path, sweeps: Sequence[Sweep]) -> Iterator[tuple[str, Path]]:
    """Yields (name in the bundle, path) for each file of the sweeps, and of later sweeps that confirm their answers."""
    # Left out: records that the report does not show, for example records of earlier plans.
    processes = [process for sweep in sweeps for process in sweep.processes]
    records = [process.path for process in processes if process.path and process.record]
    paths = {path.with_suffix(ending) for path in records for ending in (".json", REQUESTS)}
    folders = {*sweep_folders(folder), *(path.parent for path in records)}
    paths |= {sweep / name for sweep in folders for name in (PLAN, RACE, COMPARISON)}
    for path in sorted(filter(os.path.lexists, paths)):
        is_shown = path.is_relative_to(folder)
        inner = path.relative_to(folder if is_shown else confirmed_of(folder))
        if path.parent == folder:  # a folder of a single sweep
            inner = Path(folder.resolve().name) / inner
        yield f"{RESULTS if is_shown else CONFIRMED}/{inner.as_posix()}", path
