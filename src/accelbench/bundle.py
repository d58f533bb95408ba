"""A bundle is a zip file with the records of a folder and their tables. Equal records give equal bytes.

Its file `SHA256SUMS` lists the SHA-256 of all other files. `sha256sum -c` can check them.
"""

import csv
import hashlib
import io
import os
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from accelbench.data.pictures import unpack
from accelbench.errors import RefusedError, UserError
from accelbench.presentation import counted
from accelbench.project import COMPARISON, CONFIRMED, PLAN, RACE, REQUESTS
from accelbench.report.export import csv_text, tables
from accelbench.report.read import Sweep, confirmed_of, read_all
from accelbench.schema.plan_file import sweep_folders
from accelbench.schema.record import listed
from accelbench.schema.serialize import sha256_of, writing

RESULTS, SUMS = "results", "SHA256SUMS"
EPOCH = (1980, 1, 1, 0, 0, 0)  # time of every file: the earliest that a zip archive can have
NOT_SHOWN = (
    "whether the samples are true: the author of the bundle could have invented them",
    "who made the bundle: only a signature shows it, such as one by gpg or ssh-keygen",
    "whether the released code measured the records: they only have the digest of the code",
)


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
    texts = {name: csv_text(rows) for name, rows in tables(sweeps).items()}
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


@dataclass
class Verified:
    """The result of a check: sentences about what is right (`shown`), and about problems."""

    shown: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    sweeps: list[Sweep] = field(default_factory=list)  # sweeps of the records; their files no longer exist


def verify(path: Path) -> Verified:
    """Unpacks a bundle into a temporary folder and checks it. Raises UserError: it is no bundle, or it is unsafe."""
    done = Verified()
    with tempfile.TemporaryDirectory(prefix="accelbench-bundle-") as place:
        folder = Path(place)
        try:
            unpack(path, folder)
            _check_sums(folder, done)
            done.sweeps = read_all(folder / RESULTS)
            done.problems += [line for sweep in done.sweeps for line in sweep.unread]
            for name, rows in tables(done.sweeps).items():
                published = (folder / name).read_bytes() if (folder / name).exists() else b""
                _compare(name, csv_text(rows), published.decode(errors="replace"), done)
        except (UserError, OSError, ValueError, csv.Error) as error:
            text = str(error).replace(f"{place}/", "").removeprefix(f"{path}: ")
            raise UserError(f"{path}: not a readable bundle of accelbench: {text}") from error
        done.problems = [problem.replace(f"{place}/", "") for problem in done.problems]
    return done


def _check_sums(folder: Path, done: Verified) -> None:
    """Compares the files in `folder` with the digests in `SHA256SUMS`."""
    wanted = {}
    for line in (folder / SUMS).read_text().splitlines():
        digest, _, name = line.partition("  ")
        wanted[name] = digest
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {SUMS}
    for name in sorted({*wanted, *there}):
        if name not in there:
            done.problems.append(f"{name}: in {SUMS}, but missing")
        elif sha256_of(folder / name) != wanted.get(name):
            done.problems.append(f"{name}: not the file that {SUMS} lists")
    if not done.problems:
        done.shown.append(f"{len(there)} files are those that {SUMS} lists")


def _compare(name: str, ours: str, theirs: str, done: Verified) -> None:
    """Finds the first difference of the bundle's table (`theirs`) from the table of its records (`ours`)."""
    rows, published = (list(csv.DictReader(io.StringIO(text))) for text in (ours, theirs))
    if len(rows) != len(published):
        done.problems.append(f"{name}: has {len(published)} rows, but the records give {len(rows)}")
        return
    for row, other in zip(rows, published, strict=True):
        for column, value in row.items():
            if other.get(column, value) != value:  # other releases have other columns
                what = f"{name}: {row.get('label') or row['model']}: {column}"
                done.problems.append(f"{what} should be {value or 'empty'}, not {other[column] or 'empty'}")
                return
    done.shown.append(f"{name}: {counted(len(rows), 'row')} that follow from the records")
