"""What a controller asks of a cluster's scheduler."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from accelbench.cluster.groups import Need
from accelbench.errors import UserError
from accelbench.settings.executors import Executor, ExecutorConfig

UNKNOWN = "no answer"  # the state of each job while the scheduler does not answer


class ClusterEngine(ABC):
    """A scheduler, with the settings that the user gave for it.

    Attributes:
        name: as messages name it.
        num_jobs: of each group of cells, at most.
        jobs_outlive: whether jobs go on after their controller has ended.
    """

    name: str
    num_jobs: int
    jobs_outlive: bool

    @abstractmethod
    def submit(self, parts: Sequence[Path], need: Need, job_name: str) -> Iterator[str]:
        """Submits a job for each part, for nodes that have what is needed; yields each job as soon as it is there.

        Raises:
            UserError: the scheduler refuses it; the message says why.
        """

    @abstractmethod
    def states(self, jobs: Sequence[str], job_name: str) -> Mapping[str, str]:
        """Job -> its state in the scheduler's word, of those that may still measure or be started again.

        Args:
            jobs: those that are known.
            job_name: under which they were submitted; others of this name, which only the scheduler knows, come too.
        """

    @abstractmethod
    def cancel(self, jobs: Sequence[str]) -> None:
        """Ends the jobs.

        Raises:
            UserError: the scheduler does not do it; the message says why.
        """

    def last_words(self, spread: Path, job: str) -> str:
        """What the log of a job of the round in the folder `spread` says of its end, and the log; empty if nothing."""
        return ""

    def close(self) -> None:
        """Leaves the cluster. The engine is not used afterwards."""
        return


def engine_of(executor: ExecutorConfig) -> ClusterEngine:
    """The engine that the user has chosen.

    Raises:
        UserError: it is not installed, or its cluster is not there.
    """
    extra = executor.name.value
    try:
        if executor.name == Executor.slurm:
            from accelbench.cluster.on_slurm import SlurmEngine

            return SlurmEngine(executor.slurm)
        from accelbench.cluster.on_ray import RayEngine

        return RayEngine(executor.ray)
    except ModuleNotFoundError as error:
        if error.name not in ("submitit", "ray"):
            raise
        how = f"pip install '/path/to/accelbench[{extra}]'"
        problem = f"executor={extra}: {error.name} is not installed: the extra `{extra}` has it"
        raise UserError(f"{problem}: {how}") from error
