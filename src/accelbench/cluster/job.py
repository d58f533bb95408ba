"""What a job of a cluster does: its part of a sweep, on its node.

The modules that start jobs call `run_part`. It may be called again with the same part and job, after the job was
requeued, and goes on where it stopped.
"""

import os
import platform
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from accelbench.cluster.shared_state import Part, Round, read_part
from accelbench.errors import UserError
from accelbench.grid.plan import prepare
from accelbench.isolation.hosts import Hosts
from accelbench.project import SAFETENSORS, workplace
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

    Raises Exception: the job can't go on; its problem file has the message.
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
        ready = prepare(part.cells, place)
        found = {item.cell.id: item for item in ready.planned}
        # In the part's order and with its labels.
        labelled = zip(part.cells, part.labels, strict=True)
        items = {cell.id: replace(found[cell.id], label=label) for cell, label in labelled}
        node = {"name": os.environ.get(NODE_NAME) or platform.node(), "job": job}
        ready = replace(ready, planned=list(items.values()), node=node)
        claims = Claims(shared.folder / "claims", job, is_alive, shared.is_done)
        with Session(context, ready, ready.planned) as session:
            for cell_id in claims.turns(list(items)):
                record = session.measure(items[cell_id])
                if record.status in UNEXPECTED:
                    time.sleep(SIGNAL_S)  # if not the cell failed, but its job is ended, this raises
                for ending in (SAFETENSORS, ".json"):  # what is finished is never changed
                    if (work / f"{record.name}{ending}").exists():
                        (work / f"{record.name}{ending}").replace(finished / f"{record.name}{ending}")


class Claims:
    """The claims of one job on the cells of a round, in a folder that the jobs share, so that no two jobs measure one.

    A claim is a file `<cell id>.<number>` that names its job. It is made whole, by linking a written file, which fails
    if there is one: as O_EXCL does, but nobody ever sees a claim without its job, even if the job is killed meanwhile.
    Claims are never changed or deleted: whoever takes over the cell of a job that has ended makes the claim with the
    next number, and one of several who try gets it. The claim with the highest number counts.
    """

    def __init__(
        self,
        folder: Path,
        job: str,
        is_alive: Callable[[str], bool],  # whether the job of that name may still measure, or be started again
        is_done: Callable[[str, str], bool],  # whether the job of that name has left the record of the cell of that id
    ) -> None:
        self._folder, self._job, self._is_alive, self._is_done = folder, job, is_alive, is_done
        folder.mkdir(parents=True, exist_ok=True)

    def turns(self, cell_ids: Sequence[str]) -> Iterator[str]:
        """Yields the ids of the cells that this job is to measure, each after its claim was made.

        The caller leaves a cell's record before it asks for the next one. Ends when every cell has its record or is
        claimed by another job that is alive.
        """
        has_taken = True
        while has_taken:
            has_taken = False
            for cell_id in cell_ids:
                if self._take(cell_id):
                    has_taken = True
                    yield cell_id

    def owners(self, cell_id: str) -> list[str]:
        found: list[str] = []
        while (path := self._path(cell_id, len(found))).exists():
            found.append(path.read_text())
        return found

    def _take(self, cell_id: str) -> bool:
        owners = self.owners(cell_id)
        if not owners:
            return self._make(cell_id, 0)
        if owners[-1] != self._job and self._is_alive(owners[-1]):
            return False
        # Looked for after its job was seen to have ended: it leaves no record any more.
        if any(self._is_done(owner, cell_id) for owner in owners):
            return False
        return owners[-1] == self._job or self._make(cell_id, len(owners))

    def _make(self, cell_id: str, number: int) -> bool:
        """Makes the claim; False if another job has."""
        written = self._folder / f".{self._job}-{secrets.token_hex(8)}"
        written.write_text(self._job)
        try:
            os.link(written, self._path(cell_id, number))
        except FileExistsError:
            # A server of NFS whose answer was lost is asked again, and then finds the link that it has made.
            return written.stat().st_nlink == 2
        finally:
            written.unlink()
        return True

    def _path(self, cell_id: str, number: int) -> Path:
        return self._folder / f"{cell_id}.{number}"
