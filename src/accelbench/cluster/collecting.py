"""What the jobs of a cluster have left: which records stand, and bringing them into the sweep's folder."""

from pathlib import Path

from accelbench.cluster.shared_state import Round
from accelbench.errors import UserError
from accelbench.grid.identity import identity
from accelbench.grid.prepare import Prepared
from accelbench.judging.disturbed import is_retried
from accelbench.project import RECORDS
from accelbench.schema.record import Record
from accelbench.settings.config import Retry
from accelbench.sweep.kept import read_or_set_aside
from accelbench.sweep.merge import merge
from accelbench.sweep.session import NOT_JUDGED

OF_NODE = ("nvidia-driver",)  # versions of the node, and not of the packages, which all nodes share


def collect(spread: Round, folder: Path) -> list[str]:
    """Adds the finished records of a round to the sweep's folder; returns a line for each that could not be added.

    Raises:
        UserError: the folder can't be written.
    """
    merged = merge([str(source) for source in spread.sources()], folder.parent)
    return [*merged.conflicts, *merged.problems]


def present(folder: Path, ready: Prepared) -> tuple[list[Record], list[str]]:
    """The records of the planned cells, of today's code and data, the oldest first.

    What is in the place of one and can't be read is set aside: a line says so.

    Raises:
        RefusedError: the system refused to read a file; the record may be whole.
        WriteError: a file can't be renamed.
    """
    ids = {item.cell.id for item in ready.planned}
    found, lines = read_or_set_aside(path for path in folder.glob(RECORDS) if path.stem.partition("-")[0] in ids)
    return sorted((each for each in found if _is_present(each, ready)), key=lambda record: record.started_at), lines


def stands(record: Record, retry: Retry) -> bool:
    """Whether the cell of a present record needs no other one."""
    return record.reason != NOT_JUDGED and not (retry == Retry.failed and is_retried(record))


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
