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

from rich.console import Console

from accelbench.cluster.claims import Claims
from accelbench.cluster.shared_state import Part, Round, read_part
from accelbench.errors import UserError
from accelbench.grid.plan import Prepared, prepare
from accelbench.isolation.hosts import Hosts
from accelbench.project import SAFETENSORS, Workplace, workplace
from accelbench.schema.vocab import UNEXPECTED
from accelbench.sweep.context import SweepContext
from accelbench.sweep.session import Session

# A scheduler signals all processes of a job at once: the signal that ended a cell's process reaches this one within it.
SIGNAL_S = 2.0
NODE_NAME = "SLURMD_NODENAME"  # the variable that names the node; without it, that is the host's name


def run_part(path: str, job: str, is_alive: Callable[[str], bool], new_hosts: Callable[[], Hosts] = Hosts) -> None:
    """Measures the cells of a part that no other job measures; each record lies in the job's folder when it is whole.

    Args:
        job: the name of this job; a job that was started again has the same one.
        is_alive: whether another job of the round may still measure.

    Raises:
        Exception: the job can't go on; its problem file has the message.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    here = Path(path)
    problem = here.parent / "problems" / f"{job}.txt"
    problem.parent.mkdir(exist_ok=True)  # there is no round any more if this fails
    problem.unlink(missing_ok=True)
    try:
        part = read_part(here)
        os.chdir(part.project)
        with new_hosts() as hosts:
            _measure(part, Round(here.parent, part.name), job, is_alive, hosts)
    except Exception as error:
        kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        problem.write_text(f"{kind}{error}\n")
        raise


def _measure(part: Part, shared: Round, job: str, is_alive: Callable[[str], bool], hosts: Hosts) -> None:
    place = workplace().with_data(part.options.data_root)
    work, finished = shared.folder / "work" / job, shared.finished(job)
    for folder in (work, finished):
        folder.mkdir(parents=True, exist_ok=True)
    console = Console(file=sys.stdout, highlight=False)
    context = SweepContext(part.options, console, hosts, place, work, part.sweep_id)
    with context.alone():
        ready = _prepared(part, job, place)
        items = {item.cell.id: item for item in ready.planned}
        claims = Claims(shared.folder / "claims", job, is_alive, shared.is_done)
        with Session(context, ready, ready.planned) as session:
            for cell_id in claims.turns(list(items)):
                record = session.measure(items[cell_id])
                if record.status in UNEXPECTED:
                    time.sleep(SIGNAL_S)  # if not the cell failed, but its job is ended, this raises
                for ending in (SAFETENSORS, ".json"):  # what is finished is never changed
                    if (work / f"{record.name}{ending}").exists():
                        (work / f"{record.name}{ending}").replace(finished / f"{record.name}{ending}")
                session.show(record)


def _prepared(part: Part, job: str, place: Workplace) -> Prepared:
    """The part's cells on this machine, in the part's order and with its labels."""
    ready = prepare(part.cells, place)
    found = {item.cell.id: item for item in ready.planned}
    planned = [replace(found[cell.id], label=label) for cell, label in zip(part.cells, part.labels, strict=True)]
    return replace(ready, planned=planned, node={"name": os.environ.get(NODE_NAME) or platform.node(), "job": job})
