"""What a job of a cluster does: its part of a sweep, on its node.

The modules that start jobs call `run_part`. It may be called again with the same part and job, after the job was
requeued, and goes on where it stopped.
"""

import os
import platform
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType

from rich.console import Console

from accelbench.cluster.claims import Claims
from accelbench.cluster.shared_state import Part, Round, read_part
from accelbench.errors import UserError
from accelbench.grid.plan import Planned
from accelbench.grid.prepare import Prepared, prepare
from accelbench.isolation.hosts import Hosts
from accelbench.project import SAFETENSORS, Workplace, workplace
from accelbench.schema.record import Record
from accelbench.schema.vocab import UNEXPECTED
from accelbench.sweep.context import SweepContext
from accelbench.sweep.session import Session

# A scheduler signals all processes of a job at once: the signal that ended a cell's process reaches this one within it.
SIGNAL_S = 2.0
NODE_NAMES = ("SLURMD_NODENAME",)  # variables that name the node; without them it is the host's name


def run_part(path: str, job: str, is_alive: Callable[[str], bool], new_hosts: Callable[[], Hosts] = Hosts) -> None:
    """Measures the cells of a part that no other job measures; each record lies in the job's folder when it is whole.

    Args:
        job: the name of this job; a job that was started again has the same one.
        is_alive: whether another job of the round may still measure.

    Raises:
        Exception: the job can't go on; its problem file has the message.
    """
    signal.signal(signal.SIGTERM, _end)
    here = Path(path)
    problem = Round(here.parent, "").problem(job)
    problem.parent.mkdir(exist_ok=True)  # there is no round any more if this fails
    problem.unlink(missing_ok=True)
    try:
        part = read_part(here)
        shared = Round(here.parent, part.name)
        os.chdir(part.project)
        for folder in (shared.finished(job), shared.work(job)):
            folder.mkdir(parents=True, exist_ok=True)
        with new_hosts() as hosts:
            _measure(part, shared, job, is_alive, hosts)
    except Exception as error:
        kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        problem.write_text(f"{kind}{error}\n")
        raise


def _measure(part: Part, shared: Round, job: str, is_alive: Callable[[str], bool], hosts: Hosts) -> None:
    console = Console(file=sys.stdout, highlight=False)
    place = workplace().with_data(part.options.data_root)
    context = SweepContext(part.options, console, hosts, place, shared.work(job), part.sweep_id)
    with context.alone():
        ready = _prepared(part, job, place)
        items = {item.cell.id: item for item in ready.planned}
        claims = Claims(shared.claims, job, is_alive, shared.is_done)
        with Session(context, ready, ready.planned) as session:
            for cell_id in claims.turns(list(items)):
                _measure_cell(session, items[cell_id], context.folder, shared.finished(job))


def _prepared(part: Part, job: str, place: Workplace) -> Prepared:
    """The part's cells on this machine, in the part's order and with its labels."""
    ready = prepare(part.cells, place)
    found = {item.cell.id: item for item in ready.planned}
    planned = [replace(found[cell.id], label=label) for cell, label in zip(part.cells, part.labels, strict=True)]
    host = next((os.environ[name] for name in NODE_NAMES if name in os.environ), platform.node())
    return replace(ready, planned=planned, node={"name": host, "job": job})


def _measure_cell(session: Session, item: Planned, work: Path, finished: Path) -> None:
    record = session.judge(session.measure(item))
    if record.status in UNEXPECTED:
        time.sleep(SIGNAL_S)  # not the cell failed, but its job is ended: then `_end` or submitit raises here
    _leave(record, work, finished)
    session.show(record)


def _leave(record: Record, work: Path, finished: Path) -> None:
    """Moves the record to those that are finished, which are never changed; its weights first."""
    for ending in (SAFETENSORS, ".json"):
        if (work / f"{record.name}{ending}").exists():
            (work / f"{record.name}{ending}").replace(finished / f"{record.name}{ending}")


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
