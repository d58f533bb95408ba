"""Checks that a bundle is complete, and that its tables follow from its records."""

import csv
import hashlib
import io
import tempfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from accelbench.bundle.archive import MAX_FILE_BYTES, RESULTS, SUMS
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
    """The result of a check: sentences about what is right (`shown`), and about problems."""

    shown: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
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
            done.problems += [line for sweep in done.sweeps for line in sweep.unread]
            for name, rows in tables(done.sweeps).items():
                _compare(name, csv_file.text(rows), published.get(name, ""), done)
        except UserError as error:
            text = str(error).replace(f"{place}/", "")
            raise UserError(text if text.startswith(str(path)) else f"{path}: {text}") from error
        except OSError as error:
            name = str(error.filename or "").removeprefix(f"{place}/")
            raise UserError(f"{path}: can't be unpacked ({name!r}: {error.strerror})") from error
        done.problems = [problem.replace(f"{place}/", "") for problem in done.problems]
    return done


def _unpacked(archive: Zip, place: Path, done: Verified) -> dict[str, str]:
    """Unpacks the files into the folder `place`. Returns the tables: name -> text."""
    names = archive.names()
    if SUMS not in names or not any(name.startswith(f"{RESULTS}/") for name in names):
        raise UserError(f"{archive.path}: not a bundle of accelbench: it has no {SUMS}, or no {RESULTS}/")
    lines = archive.read(SUMS).decode(errors="replace").splitlines()
    wanted = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    published = dict[str, str]()
    for name in names:
        plain = PurePosixPath(name)
        leads_out = plain.is_absolute() or ".." in plain.parts
        if leads_out or plain.as_posix() != name or len(plain.parts) > MAX_DEPTH:
            raise UserError(f"{archive.path}: {name[:99]!r} is not a plain file name, so the bundle is not used")
        content = archive.read(name)
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
    """Finds the first difference of the bundle's table (`theirs`) from the table of its records (`ours`)."""
    try:
        rows, published = (list(csv.DictReader(io.StringIO(text))) for text in (ours, theirs))
    except csv.Error as error:
        raise UserError(f"{name}: not a readable table ({error})") from error
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
