"""What a bundle shows by itself: that it is whole, and that its figures follow from its records."""

import csv
import hashlib
import io
import json
import tempfile
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from accelbench.bundle.archive import CRATE, MAX_FILE_BYTES, MAX_TOTAL_BYTES, RESULTS, digests, requests_digest
from accelbench.data.pictures import Zip
from accelbench.errors import UserError
from accelbench.judging.target import mllog
from accelbench.project import MLLOG, RECORDS, REQUESTS
from accelbench.report import csv_file
from accelbench.report.export import tables
from accelbench.report.read import Sweep, read_all
from accelbench.schema.parallel import mapped, without_collection
from accelbench.schema.record import Record, hardware, node_of
from accelbench.schema.record import read_all as read_records
from accelbench.schema.serialize import json_text, plain
from accelbench.schema.vocab import Status
from accelbench.serving.server import Served
from accelbench.serving.summary import ROWS, summarised

ROUNDING = 1e-6  # a share by which the sum of times may exceed what holds them
OVERLAP_S = 1.0  # by which the clocks of two processes' starts and ends may be wrong
# What a record has of its requests that does not follow from their times.
NOT_IN_TIMES = {"seed", "error", "batches", "sizes", "num_padded", "busy_share", "is_late", "requests_digest"}
NOT_IN_TIMES |= {"null_p50_s", "null_p99_s", "null_rate"}
NOT_SHOWN = (
    "that the samples are true: whoever made the bundle could have made them up",
    "who made it: --key checks a signature",
    "that the code that measured is the published one: a record holds its digest alone",
    "that a report page in it follows from the records: build it again from these",
)


@dataclass
class Verified:
    """What was looked at, in sentences, what is wrong, and what a reader of the records should know."""

    shown: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sweeps: list[Sweep] = field(default_factory=list)  # of the records; their files are gone


@without_collection()
def verify(path: Path) -> Verified:
    """Looks at a bundle; unpacks it into a temporary folder. Raises UserError: it is no bundle, or is unsafe."""
    if not path.is_file():
        raise UserError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
    done = Verified()
    with tempfile.TemporaryDirectory(prefix="accelbench-bundle-") as place:
        try:
            kept = _unpacked(Zip(path, MAX_TOTAL_BYTES, MAX_FILE_BYTES), Path(place), done)
            sweeps = done.sweeps = read_all(Path(place, RESULTS))
            processes = [each for sweep in sweeps for each in sweep.processes]
            _look(sorted(Path(place).rglob(RECORDS)), {each.path for each in processes}, done)
            _compare(kept, sweeps, done)
        except UserError as error:
            text = str(error).replace(f"{place}/", "")
            raise UserError(text if text.startswith(str(path)) else f"{path}: {text}") from error
        except OSError as error:
            name = str(error.filename or "").removeprefix(f"{place}/")
            raise UserError(f"{path}: can't be unpacked ({name!r}: {error.strerror})") from error
        named = [problem.partition(":")[0] for problem in done.problems]
        notes = [note.replace(f"{place}/", "") for sweep in sweeps for note in sweep.notes]
        done.notes += [note for note in notes if not any(name in note for name in named)]
        if overlaps := [*_overlaps([each.record for each in processes if each.record])]:
            done.problems += overlaps
        else:
            done.shown.append("no two processes of a sweep, or of a node that has a name, ran at once")
    return done


def _unpacked(archive: Zip, place: Path, done: Verified) -> dict[str, bytes]:
    """Writes the files below `place`, and returns those that are tables."""
    names = archive.names()
    if CRATE not in names:
        raise UserError(f"{archive.path}: no bundle of accelbench: it has no {CRATE}")
    if unsafe := [name for name in names if PurePosixPath(name).as_posix() != name]:
        raise UserError(f"{archive.path}: {unsafe[0]!r} is no plain name of a file; nothing of it is used")
    if not any(name.startswith(f"{RESULTS}/") for name in names):
        raise UserError(f"{archive.path}: no bundle of accelbench: it has no {RESULTS}/")
    try:
        wanted = digests(json.loads(archive.read(CRATE)))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{archive.path}: no bundle of accelbench: its {CRATE} is damaged") from error
    kept = dict[str, bytes]()
    for folder in {(place / name).parent for name in names}:
        folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        content = archive.read(name)
        (place / name).write_bytes(content)
        if name != CRATE and hashlib.sha256(content).hexdigest() != wanted.pop(name, None):
            done.problems.append(f"{name}: not the file that {CRATE} lists")
        if name.endswith(".csv"):
            kept[name] = content
    done.problems += [f"{name}: listed, and not there" for name in wanted]
    if not done.problems:
        done.shown.append(f"{len(names)} files are those that {CRATE} lists, by their sha256")
    return kept


def _compare(kept: dict[str, bytes], sweeps: Sequence[Sweep], done: Verified) -> None:
    """The published figures beside those that the samples give."""
    for name, rows in tables(sweeps).items():
        texts = csv_file.text(rows), kept.get(name, b"").decode(errors="replace")
        wrong = [] if name in kept and texts[0] == texts[1] else _differences(name, *texts, done)
        done.problems += wrong
        if not wrong:
            num_figures = sum(value not in (None, "") for row in rows for value in row.values())
            done.shown.append(f"{name}: {num_figures:,} values in {len(rows)} rows follow from the records")


def _differences(name: str, own: str, other: str, done: Verified) -> list[str]:
    """In what a table differs from our `own`; columns that it lacks without hiding anything are a note."""
    readers = [csv.DictReader(io.StringIO(text)) for text in (own, other)]
    try:
        ours, theirs = map(list, readers)
    except csv.Error as error:
        raise UserError(f"{name}: no readable table ({error})") from error
    columns, found_columns = (list(each.fieldnames or ()) for each in readers)
    # Without a value they hide nothing: an earlier release did not have them.
    lacking = [each for each in columns if each not in found_columns and not any(row[each] for row in ours)]
    if not found_columns or [column for column in columns if column not in lacking] != found_columns:
        changed = ", ".join(sorted({*columns} ^ {*found_columns}))
        return [f"{name}: has other columns than the records give: {changed or 'their order'}"]
    if lacking:
        done.notes.append(f"{name}: lacks columns that have no value here: {', '.join(lacking)}")
        ours = [{column: value for column, value in row.items() if column not in lacking} for row in ours]
    if len(ours) != len(theirs):
        return [f"{name}: has {len(theirs)} rows, and the records give {len(ours)}"]
    return [
        f"{name}: {row.get('label') or row['model']}: {column or 'a further column'} should be "
        f"{row.get(column) or 'empty'}, not {found.get(column) or 'empty'}"
        for row, found in zip(ours, theirs, strict=True)
        for column in ({**row, **found} if row != found else ())
        if row.get(column) != found.get(column)
    ]


def _look(paths: Sequence[Path], known: Container[Path | None], done: Verified) -> None:
    """Each record by itself, and beside the files that belong to it; `known` are those of the published figures."""
    wrong = [line for found in mapped(_wrong, paths) for line in found]
    wrong += [f"{path.name}: of no plan, and of none of the figures" for path in paths if path not in known]
    done.problems += wrong
    if not wrong:
        served, logged = (sum(each.with_suffix(end).exists() for each in paths) for end in (REQUESTS, MLLOG))
        done.shown.append(f"{len(paths)} records were read; each is as its schema says, and named by its settings")
        done.shown.append("the times of each fit into its process")
        if served:
            done.shown.append(f"{served} files of raw times of requests are those of their records, and give theirs")
        if logged:
            done.shown.append(f"{logged} logs of trainings to a target follow from their records")


def _wrong(path: Path) -> list[str]:
    """What is wrong with a record, or with the raw times of requests and the log beside it."""
    readable, requests, log = read_records([path]), path.with_suffix(REQUESTS), path.with_suffix(MLLOG)
    wrong = list[str]()
    for record in readable:
        wrong += too_long(record)
        wrong += _wrong_requests(record, requests) if requests.exists() else []
        if log.exists() and log.read_bytes() != mllog(record).encode():
            wrong.append(f"{log.name}: is not what its record gives")
    return wrong + [f"{path.name}: {reason}" for reason in readable.reasons.values()]


def too_long(record: Record) -> Iterator[str]:
    """Yields the measured times that are longer than what holds them: the steady state, or the whole process."""
    if (measured := record.measurement) is None:
        return
    steps_s = sum(block.seconds for block in measured.blocks)
    steps_s += 0.0 if measured.steps_are_blocks else sum(measured.latency_s)
    took_s = {"steps": steps_s, "epochs": sum(each.seconds for each in measured.epochs)}
    took_s["requests"] = measured.serving.duration_s if measured.serving else 0.0
    if seen := measured.target:
        took_s["log"] = max((each.ended_s for each in seen.log), default=0.0)
        took_s["evaluations"] = seen.evaluations[-1].ended_s if seen.evaluations else 0.0
    limits = [(what, seconds, "the whole process", record.wall_s) for what, seconds in took_s.items()]
    if measured.steady_boot_s is not None and measured.blocks:
        begin_s, end_s = measured.steady_boot_s
        limits.append(("steps", steps_s, "its steady state", end_s - begin_s))
    for what, seconds, whole, limit_s in limits:
        if seconds > limit_s * (1 + ROUNDING):
            yield f"{record.name}: its {what} took {seconds:.6g} s, and {whole} {limit_s:.6g} s"


def _wrong_requests(record: Record, path: Path) -> list[str]:
    """That the raw times are not those of the record, or do not give what it says of them."""
    content, serving = path.read_bytes(), record.measurement and record.measurement.serving
    if hashlib.sha256(content).hexdigest() != requests_digest(record):
        return [f"{path.name}: not the raw times that its record names, by their sha256"]
    try:
        times = np.load(path, mmap_mode="r", allow_pickle=False)  # mapped: a false header would ask for much memory
        if times.dtype != np.int64 or times.ndim != 2 or len(times) != len(ROWS):
            raise ValueError("not the times of requests")
        if not serving:
            return []
        made: dict[str, Any] = {"batches": {}, "busy_ns": 0, "num_workers": 1, "num_padded": 0, "defects": ()}
        made |= {"num_errors": int((times[-1] < 0).sum()), "error": None, "ended_early": serving.ended_early, "seed": 0}
        given = summarised(Served(**dict(zip(ROWS, np.array(times), strict=True)), **made), record.cell)
    except Exception as error:  # whoever made them up may have chosen any numbers
        return [f"{path.name}: not readable ({error})"]
    ours, theirs = (json.loads(json_text(plain(each)), parse_float=_rounded) for each in (given, serving))
    changed = [name for name in ours if name not in NOT_IN_TIMES and ours[name] != theirs[name]]
    return [f"{path.name}: gives another {', '.join(changed)} than its record has"] if changed else []


def _rounded(text: str) -> str:
    return f"{float(text):.9g}"  # another release of NumPy may add up in another order


def _overlaps(records: Sequence[Record]) -> Iterator[str]:
    """Yields the processes that ran while another one of their sweep, or of a node of the same name, did."""
    # Other records may be of several machines that are equal.
    groups: dict[tuple[str, str | None, str | None], dict[tuple[str, str], Record]] = defaultdict(dict)
    for record in records:
        node = node_of(record.environment)
        if record.status != Status.skipped and (node or record.sweep_id):
            key = hardware(record.environment), node, None if node else record.sweep_id
            groups[key][record.name, record.started_at] = record
    for group in groups.values():
        starts = [(datetime.fromisoformat(each.started_at).timestamp(), each) for each in group.values()]
        timed = sorted(starts, key=lambda start: (start[0], start[1].name))
        for (start, one), (following, other) in zip(timed, timed[1:], strict=False):
            if start + one.wall_s > following + OVERLAP_S:
                yield f"{other.name}: began while {one.name} ran on the same machine"
