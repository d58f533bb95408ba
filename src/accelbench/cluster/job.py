"""A job of a cluster. It measures its part of a sweep on its node. If it is requeued, it skips the finished cells."""

import os
import platform
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from accelbench.errors import UserError
from accelbench.grid.plan import in_order, prepare
from accelbench.isolation.hosts import Hosts
from accelbench.project import RECORDS, REQUESTS, SAFETENSORS, workplace
from accelbench.schema.cell import Cell
from accelbench.schema.serialize import load, read_json
from accelbench.schema.vocab import UNEXPECTED
from accelbench.settings.config import SweepOptions
from accelbench.sweep.session import Session, SweepContext

# A scheduler sends a signal to all processes of a job at once. If the signal ended a cell's process, it also reaches
# this process within this time.
SIGNAL_S = 2.0
NODE_NAME = "SLURMD_NODENAME"  # environment variable with the node's name; without it, the host's name is used
PROBLEM = ".problem"  # suffix of the file with the reason why a job could not continue


@dataclass(frozen=True, kw_only=True)
class Part:
    """The input of a job, as a JSON file. Each cell is in only one job."""

    sweep_id: str
    project: str  # current folder of the controller, from which the job finds the project
    options: SweepOptions
    cells: list[Cell]
    labels: dict[str, str]  # cell id -> label


def finished(part: Path) -> Path:
    """Returns the folder of the finished records of a part's job."""
    return part.with_suffix("") / "finished"


def run_part(path: str, job: str) -> None:
    """Measures the cells of the part at `path` that have no record yet. `job`: the job's name in records."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    here = Path(path)
    problem = here.with_suffix(PROBLEM)
    problem.unlink(missing_ok=True)
    try:
        part = load(Part, read_json(here))
        os.chdir(part.project)
        with Hosts() as hosts:
            _measure(part, here, job, hosts)
    except Exception as error:
        kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        problem.write_text(f"job {job}: {kind}{error}\n")
        raise


def _measure(part: Part, here: Path, job: str, hosts: Hosts) -> None:
    place = workplace().with_data(part.options.data_root)
    done = finished(here)
    work = here.with_suffix("") / "work"
    for folder in (work, done):
        folder.mkdir(parents=True, exist_ok=True)
    console = Console(file=sys.stdout, highlight=False)
    context = SweepContext(part.options, console, hosts, place, work, part.sweep_id)
    with context.alone():
        ready = prepare(part.cells, place)
        measured = {path.stem.partition("-")[0] for path in done.glob(RECORDS)}
        planned = [item for item in in_order(ready.planned) if item.cell.id not in measured]
        todo = [replace(item, label=part.labels[item.cell.id]) for item in planned]
        node = {"name": os.environ.get(NODE_NAME) or platform.node(), "job": job}
        with Session(context, replace(ready, planned=todo, node=node), todo) as session:
            for item in todo:
                record = session.measure(item)
                if record.status in UNEXPECTED:
                    time.sleep(SIGNAL_S)  # raises if a signal to the job, and not a failure, ended the cell
                for ending in (SAFETENSORS, REQUESTS, ".json"):  # finished files are never changed
                    path = work / f"{record.name}{ending}"
                    if path.exists():
                        path.replace(done / path.name)
