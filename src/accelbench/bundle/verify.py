"""What a bundle shows by itself: that it is whole, and that its figures follow from its samples."""

import csv
import hashlib
import io
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from accelbench.bundle.archive import CRATE, RESULTS, digests, tables
from accelbench.data.pictures import Zip
from accelbench.errors import UserError
from accelbench.report import csv_file
from accelbench.report.read import Sweep, read_all
from accelbench.schema.record import Record, hardware, node_of
from accelbench.schema.record import read_all as read_records
from accelbench.schema.vocab import Status

MAX_TOTAL_BYTES = 4 << 30
OVERLAP_S = 1.0  # by which the clocks of two processes' starts and ends may be wrong
ROUNDING = 1e-6  # a share by which the sum of times may exceed what holds them
NOT_SHOWN = (
    "that the samples are true: whoever made the bundle could have made them up",
    "who made it: it is not signed",
    "that the code that measured is the published one: a record holds its digest alone",
)


@dataclass
class Verified:
    """What was looked at, in sentences, and what is wrong."""

    shown: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def verify(path: Path) -> Verified:
    """Looks at a bundle; unpacks it into a temporary folder. Raises UserError: it is no bundle, or is unsafe."""
    done = Verified()
    with tempfile.TemporaryDirectory(prefix="accelbench-bundle-") as place:
        kept = _unpacked(Zip(path, MAX_TOTAL_BYTES), Path(place), done)
        sweeps = read_all(Path(place, RESULTS))
        done.problems += [f"{sweep.folder}: {note}" for sweep in sweeps for note in sweep.notes]
        records = [each.record for sweep in sweeps for each in sweep.processes if each.record is not None]
        done.shown.append(f"{len(records)} records were read; each is as its schema says, and named by its settings")
        _compare(kept, sweeps, done)
        paths = [each.path for sweep in sweeps for each in sweep.processes if each.record and each.path]
        implausible = [*_overlaps(records), *(why for _, why in read_records(paths).each(_too_long) if why)]
        done.problems += implausible
        if not implausible:
            done.shown.append("no two processes of a machine ran at once, and the times of each fit into its own")
    return done


def _unpacked(archive: Zip, place: Path, done: Verified) -> dict[str, bytes]:
    """Writes the files below `place`, and returns those that are tables."""
    names = archive.names()
    if CRATE not in names:
        raise UserError(f"{archive.path}: no bundle of accelbench: it has no {CRATE}")
    try:
        wanted = digests(json.loads(archive.read(CRATE)))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{archive.path}: no bundle of accelbench: its {CRATE} is damaged") from error
    kept = dict[str, bytes]()
    for name in names:
        content = archive.read(name)
        if name != CRATE and hashlib.sha256(content).hexdigest() != wanted.pop(name, None):
            done.problems.append(f"{name}: not the file that {CRATE} lists")
        if name.endswith(".csv"):
            kept[name] = content
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    done.problems += [f"{name}: listed, and not there" for name in wanted]
    if not done.problems:
        done.shown.append(f"{len(names)} files are those that {CRATE} lists, by their sha256")
    return kept


def _compare(kept: dict[str, bytes], sweeps: Sequence[Sweep], done: Verified) -> None:
    """The published figures beside those that the samples give."""
    for name, rows in tables(sweeps).items():
        ours = list(csv.DictReader(io.StringIO(csv_file.text(rows))))
        theirs = list(csv.DictReader(io.StringIO(kept.get(name, b"").decode(errors="replace"))))
        if len(ours) != len(theirs):
            done.problems.append(f"{name}: has {len(theirs)} rows, and the records give {len(ours)}")
            continue
        num_figures, wrong = 0, list[str]()
        for one, other in zip(ours, theirs, strict=True):
            num_figures += sum(bool(value) for value in one.values())
            changed = [column for column in one if one[column] != other.get(column)]
            wrong += [
                f"{name}: {one.get('label') or one['model']}: {column} should be {one[column] or 'empty'}, "
                f"not {other.get(column) or 'empty'}"
                for column in changed
            ]
        done.problems += wrong
        if not wrong:
            done.shown.append(f"{name}: {num_figures:,} values in {len(ours)} rows follow from the samples")


def _overlaps(records: Sequence[Record]) -> Iterator[str]:
    """Yields the processes that ran while another one of the same machine did."""
    machines: dict[tuple[str, str | None], dict[str, Record]] = defaultdict(dict)
    for record in records:
        if record.status != Status.skipped:
            machines[hardware(record.environment), node_of(record.environment)][record.name] = record
    for of_machine in machines.values():
        timed = sorted((datetime.fromisoformat(each.started_at).timestamp(), each.name) for each in of_machine.values())
        for (start, name), (following, other) in zip(timed, timed[1:], strict=False):
            if start + of_machine[name].wall_s > following + OVERLAP_S:
                yield f"{other}: began while {name} ran on the same machine"


def _too_long(record: Record) -> str | None:
    """That its measured times are longer than what holds them: their steady state, or the whole process."""
    measured = record.measurement
    if measured is None:
        return None
    timed_s = sum(block.seconds for block in measured.blocks)
    timed_s += 0.0 if measured.steps_are_blocks else sum(measured.latency_s)
    limits = {"the whole process": record.wall_s}
    if measured.steady_boot_s is not None:
        limits["its steady state"] = measured.steady_boot_s[1] - measured.steady_boot_s[0]
    exceeded = [f"{what} {seconds:.6g} s" for what, seconds in limits.items() if timed_s > seconds * (1 + ROUNDING)]
    return f"{record.name}: its steps took {timed_s:.6g} s, and {exceeded[0]}" if exceeded else None
