"""What the jobs of a cluster have left: which records stand, and bringing them into the sweep's folder."""

from collections.abc import Iterator
from pathlib import Path

from accelbench.cluster.shared_state import Round
from accelbench.errors import RefusedError, UserError
from accelbench.grid.identity import identity
from accelbench.grid.prepare import Prepared
from accelbench.judging.disturbed import is_retried
from accelbench.project import RECORDS, shown
from accelbench.schema.record import Record, listed, read_all
from accelbench.settings.config import Retry
from accelbench.sweep.kept import set_aside
from accelbench.sweep.merge import merge
from accelbench.sweep.session import NOT_JUDGED

OF_NODE = ("nvidia-driver",)  # versions of the node, and not of the packages, which all nodes share


def collect(spread: Round, folder: Path) -> list[str]:
    """Adds the finished records of a round to the sweep's folder.

    Returns:
        A line for each record that could not be added.

    Raises:
        UserError: the folder can't be written.
    """
    sources = [str(source) for source in spread.sources()]
    merged = merge(sources, folder.parent)
    return [*merged.conflicts, *merged.problems]


def standing(folder: Path, ready: Prepared, retry: Retry) -> dict[str, Record]:
    """Cell id -> its record in the sweep's folder that needs no other one."""
    return {record.cell.id: record for _, record in _records(folder, ready) if _stands(record, ready, retry)}


def replaced(folder: Path, ready: Prepared, retry: Retry) -> list[Path]:
    """The records of the present code and data that don't stand: the next ones will have their names."""
    return [
        path
        for path, record in _records(folder, ready)
        if _is_present(record, ready) and not _stands(record, ready, retry)
    ]


def set_aside_unreadable(folder: Path, ready: Prepared) -> list[str]:
    """Renames what is in the place of a planned cell's record and can't be read; returns lines that say so.

    Raises:
        RefusedError: the system refused to read a file; the record may be whole.
        WriteError: a file can't be renamed.
    """
    readable = read_all(_paths(folder, ready))
    for _ in readable:
        pass
    for error in readable.refused.values():
        if isinstance(error, RefusedError):
            raise error
    return listed([f"{shown(path)}: {why}; kept as {set_aside(path).name}" for path, why in readable.reasons.items()])


def _paths(folder: Path, ready: Prepared) -> list[Path]:
    """The files that are named as records of the planned cells."""
    ids = {item.cell.id for item in ready.planned}
    return [path for path in folder.glob(RECORDS) if path.stem.partition("-")[0] in ids]


def _records(folder: Path, ready: Prepared) -> Iterator[tuple[Path, Record]]:
    """The readable records of the planned cells, the oldest first."""
    found = sorted(read_all(_paths(folder, ready)).by_path(), key=lambda pair: pair[1].started_at)
    return iter(found)


def _stands(record: Record, ready: Prepared, retry: Retry) -> bool:
    again = retry == Retry.failed and is_retried(record)
    return record.reason != NOT_JUDGED and not again and _is_present(record, ready)


def _is_present(record: Record, ready: Prepared) -> bool:
    """Whether the node that measured the record would give it the same identity today.

    The record says what its machine is, this machine what code, data and packages are there now.
    """
    here, there = ready.fingerprints[record.cell.engine], record.environment
    installed = {name: version for name, version in here["versions"].items() if name not in OF_NODE}
    versions = {name: installed.get(name, version) for name, version in there["versions"].items()}
    fingerprint = {
        "machine": there["machine"],
        "versions": versions,
        "variables": there["variables"],
        "code": here["code"],
    }
    try:
        return identity(record.cell, ready.data, fingerprint) == record.identity
    except UserError:
        return False
