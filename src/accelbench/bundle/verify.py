"""Checks that a bundle is complete, and that its tables follow from its records."""

import csv
import hashlib
import io
import tempfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from accelbench.bundle.archive import MAX_FILE_BYTES, MAX_TOTAL_BYTES, RESULTS, SUMS
from accelbench.data.pictures import Zip
from accelbench.errors import UserError
from accelbench.presentation import counted
from accelbench.report import csv_file
from accelbench.report.export import tables
from accelbench.report.read import Sweep, read_all

MAX_DEPTH = 20  # folders in a file's name; a bundle needs four
NOT_SHOWN = (
    "whether the samples are true: the author of the bundle could have invented them",
    "who made the bundle: only a signature shows it, such as one by gpg or ssh-keygen",
    "whether the released code measured the records: they only have the digest of the code",
)


@dataclass
class Verified:
    """The result of a check: sentences about what is right (`shown`), about problems, and other notes."""

    shown: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sweeps: list[Sweep] = field(default_factory=list)  # sweeps of the records; their files no longer exist


def verify(path: Path) -> Verified:
    """Unpacks a bundle into a temporary folder and checks it. Raises UserError: it is no bundle, or it is unsafe."""
    if not path.is_file():
        raise UserError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
    done = Verified()
    with tempfile.TemporaryDirectory(prefix="accelbench-bundle-") as place:
        try:
            published = _unpacked(Zip(path, MAX_FILE_BYTES), Path(place), done)
            done.sweeps = read_all(Path(place, RESULTS))
            unread = [line for sweep in done.sweeps for line in sweep.unread]
            done.problems += unread
            if not unread:
                done.notes += [note for sweep in done.sweeps for note in sweep.notes]
            for name, rows in tables(done.sweeps).items():
                _compare(name, csv_file.text(rows), published.get(name, ""), done)
        except UserError as error:
            text = str(error).replace(f"{place}/", "")
            raise UserError(text if text.startswith(str(path)) else f"{path}: {text}") from error
        except OSError as error:
            name = str(error.filename or "").removeprefix(f"{place}/")
            raise UserError(f"{path}: can't be unpacked ({name!r}: {error.strerror})") from error
        done.problems = [problem.replace(f"{place}/", "") for problem in done.problems]
        done.notes = [note.replace(f"{place}/", "") for note in done.notes]
    return done


def _unpacked(archive: Zip, place: Path, done: Verified) -> dict[str, str]:
    """Unpacks the files into the folder `place`. Returns the tables: name -> text."""
    names = archive.names()
    if SUMS not in names or not any(name.startswith(f"{RESULTS}/") for name in names):
        raise UserError(f"{archive.path}: not a bundle of accelbench: it has no {SUMS}, or no {RESULTS}/")
    lines = archive.read(SUMS).decode(errors="replace").splitlines()
    wanted = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    published = dict[str, str]()
    num_bytes = 0
    for name in names:
        plain = PurePosixPath(name)
        leads_out = plain.is_absolute() or ".." in plain.parts
        if leads_out or plain.as_posix() != name or len(plain.parts) > MAX_DEPTH:
            raise UserError(f"{archive.path}: {name[:99]!r} is not a plain file name, so the bundle is not used")
        content = archive.read(name)
        num_bytes += len(content)
        if num_bytes > MAX_TOTAL_BYTES:
            raise UserError(f"{archive.path}: its files have more than {MAX_TOTAL_BYTES:,} bytes")
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
        if name != SUMS and hashlib.sha256(content).hexdigest() != wanted.pop(name, None):
            done.problems.append(f"{name}: not the file that {SUMS} lists")
        if name.endswith(".csv"):
            published[name] = content.decode(errors="replace")
    done.problems += [f"{name}: in {SUMS}, but missing" for name in wanted]
    if not done.problems:
        done.shown.append(f"{len(names)} files are those that {SUMS} lists")
    return published


def _compare(name: str, ours: str, theirs: str, done: Verified) -> None:
    """Compares the bundle's table (`theirs`) with the table that is computed from its records (`ours`)."""
    try:
        rows, published = (list(csv.DictReader(io.StringIO(text))) for text in (ours, theirs))
    except csv.Error as error:
        raise UserError(f"{name}: not a readable table ({error})") from error
    if len(rows) != len(published):
        done.problems.append(f"{name}: has {len(published)} rows, but the records give {len(rows)}")
        return
    num_problems = len(done.problems)
    for row, other in zip(rows, published, strict=True):
        # Other releases have other columns. A column that is missing or empty is compared like others.
        for column in {**row, **other}:
            should, is_now = row.get(column) or "", other.get(column) or ""
            if should != is_now:
                what = f"{name}: {row.get('label') or row['model']}: {column or 'a column without a name'}"
                done.problems.append(f"{what} should be {should or 'empty'}, not {is_now or 'empty'}")
    if len(done.problems) == num_problems:
        done.shown.append(f"{name}: {counted(len(rows), 'row')} that follow from the records")
