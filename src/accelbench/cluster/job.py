"""A job of a cluster measures its part of a sweep on its node. If it is requeued, it skips the finished cells."""

import os
import platform
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from accelbench.errors import UserError
from accelbench.grid.plan import prepare
from accelbench.isolation.hosts import Hosts
from accelbench.project import workplace
from accelbench.schema.cell import SHARE_ONE_CPU, UNEXPECTED, Cell, Device
from accelbench.schema.serialize import load, read_json
from accelbench.settings.config import SweepOptions
from accelbench.sweep.run import known
from accelbench.sweep.session import Session

# A scheduler sends a signal to all processes of a job at once. If the signal ended a cell's process, it also reaches
# this process within this time.
SIGNAL_S = 2.0
# Environment variable with the node's name; without it, the host's name is used.
NODE_NAME = "SLURMD_NODENAME"
PROBLEM = ".problem"  # suffix of the file with the reason why a job could not continue


@dataclass(frozen=True)
class Need:
    """What a cell needs on its node: `num` devices of the kind `device`. Devices `cpu` and `xla_cpu` need one `cpu`."""

    device: Device
    num: int

    @classmethod
    def of(cls, cell: Cell) -> "Need":
        return cls(Device.cpu, 1) if cell.device in SHARE_ONE_CPU else cls(cell.device, cell.devices)

    def __str__(self) -> str:
        return self.device.value if self.num == 1 else f"{self.num} x {self.device.value}"


class ClusterEngine(ABC):
    """A scheduler and the user's settings for it. If a method fails, it raises a UserError with the reason."""

    name: str  # name in messages
    num_jobs: int  # maximum number of jobs for a group of cells

    @abstractmethod
    def submit(self, part: Path, need: Need, job_name: str) -> str:
        """Submits a job for the part, to a node that has `need`. Returns the job."""

    @abstractmethod
    def states(self, job_name: str) -> Mapping[str, str]:
        """Returns job -> state for the jobs with this name that may still run."""

    @abstractmethod
    def cancel(self, jobs: Sequence[str]) -> None:
        """Ends the jobs."""

    def close(self) -> None:  # noqa: B027  # an engine may have nothing to close
        """Leaves the cluster. The engine is not used afterwards."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """The input of a job, as a JSON file. Each cell is in only one job."""

    sweep_id: str
    project: str  # current folder of the controller, from which the job finds the project
    folder: str  # of the records
    options: SweepOptions
    cells: list[Cell]
    labels: dict[str, str]  # cell id -> label


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
            _measure(part, job, hosts)
    except Exception as error:
        kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        problem.write_text(f"job {job}: {kind}{error}\n")
        raise


def _measure(part: Part, job: str, hosts: Hosts) -> None:
    place = workplace().with_data(part.options.data_root)
    console = Console(file=sys.stdout, highlight=False)
    session = Session(part.options, console, hosts, place, Path(part.folder), part.sweep_id)
    with session.alone():
        ready = prepare(part.cells, place)
        _, planned = known(session, ready.planned)
        todo = [replace(item, label=part.labels[item.cell.id]) for item in planned]
        node = {"name": os.environ.get(NODE_NAME) or platform.node(), "job": job}
        session.ready = replace(ready, planned=todo, node=node)
        with session.measuring(todo):
            for item in todo:
                try:
                    if session.measure(item).status in UNEXPECTED:
                        time.sleep(SIGNAL_S)
                except SystemExit:  # the signal to the job may also have ended the cell
                    path = session.folder / f"{item.record_name}.json"
                    if path.exists() and read_json(path)["status"] in UNEXPECTED:
                        path.unlink()
                    raise
