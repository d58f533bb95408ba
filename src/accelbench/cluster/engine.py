"""What a controller asks of a cluster's scheduler, and how the cells are shared between its jobs."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelbench.schema.cell import Cell
from accelbench.schema.vocab import SHARE_ONE_CPU, Device

UNKNOWN = "no answer"  # the state of each job while the scheduler does not answer


@dataclass(frozen=True)
class Need:
    """What a cell needs of its node: `num` devices. `cpu` is also for what else computes on the processor.

    A processor is needed once, since several devices of it are parts of one.
    """

    device: Device
    num: int

    @classmethod
    def of(cls, cell: Cell) -> "Need":
        return cls(Device.cpu, 1) if cell.device in SHARE_ONE_CPU else cls(cell.device, cell.devices)

    def __str__(self) -> str:
        return self.device.value if self.num == 1 else f"{self.num} x {self.device.value}"


class ClusterEngine(ABC):
    """A scheduler, with the settings that the user gave for it. Each method may raise a UserError, which says why."""

    name: str  # as messages name it
    num_jobs: int  # of each group of cells, at most
    jobs_outlive: bool  # whether jobs go on after their controller has ended

    @abstractmethod
    def submit(self, parts: Sequence[Path], need: Need, job_name: str) -> Iterator[str]:
        """Submits a job for each part, for nodes that have what is needed; yields each job as soon as it is there."""

    @abstractmethod
    def states(self, jobs: Sequence[str], job_name: str) -> Mapping[str, str]:
        """Job -> its state in the scheduler's word, of those that may still measure or be started again.

        Of the known `jobs`, and of others with `job_name`, which only the scheduler knows.
        """

    @abstractmethod
    def cancel(self, jobs: Sequence[str]) -> None:
        """Ends the jobs."""

    def last_words(self, spread: Path, job: str) -> str:
        """What the log of a job of the round in the folder `spread` says of its end, and the log; empty if nothing."""
        return ""

    def close(self) -> None:  # noqa: B027  # an engine may have nothing to leave
        """Leaves the cluster. The engine is not used afterwards."""


def groups(cells: Iterable[Cell]) -> dict[Need, list[Cell]]:
    """Need -> the cells that have it, in their order."""
    found: dict[Need, list[Cell]] = {}
    for cell in cells:
        found.setdefault(Need.of(cell), []).append(cell)
    return found


def shares(cells: list[Cell], num: int) -> list[list[Cell]]:
    """The cells in the order in which each of `num` jobs takes them: first its own, then what the others left.

    All cells of a repeat belong to one job, on whose node they can be compared; to several if there are fewer repeats
    than jobs. There are at most as many jobs as cells.
    """
    num = min(num, len(cells))
    repeats: dict[int, list[Cell]] = {}
    for cell in cells:
        repeats.setdefault(cell.repeat, []).append(cell)
    parts: list[list[Cell]] = [[] for _ in range(num)]
    for number, repeat in enumerate(repeats.values()):
        own = parts[number % num :: len(repeats)]  # one job, unless there are fewer repeats than jobs
        for k, cell in enumerate(repeat):
            own[k % len(own)].append(cell)
    return [[cell for part in (*parts[k:], *parts[:k]) for cell in part] for k in range(num)]
