"""Jobs of Slurm, submitted by submitit."""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import submitit
from submitit.core.utils import DelayedSubmission
from submitit.slurm.slurm import SlurmExecutor

from accelbench.errors import UserError
from accelbench.schema.text import one_line
from accelbench.schema.vocab import Device
from accelbench.settings.executors import SlurmConfig
from accelbench.sweep.cluster.engine import ClusterEngine
from accelbench.sweep.cluster.groups import Need
from accelbench.sweep.cluster.job import run_part

ASK_S = 10.0  # how long a job takes Slurm's answer about another one for true
TIMEOUT_S = 60.0  # of a call of Slurm's commands
UNKNOWN = "no answer"  # the state of each job while Slurm does not answer
PROGRAMS = ("sbatch", "squeue", "scancel")


class SlurmEngine(ClusterEngine):
    """Submits jobs that have their node for themselves, and that Slurm requeues when a node is lost."""

    name = "Slurm"
    jobs_outlive = True

    def __init__(self, config: SlurmConfig) -> None:
        self._config = config
        self.num_jobs = config.nodes or 1
        for program in PROGRAMS:
            if shutil.which(program) is None:
                raise UserError(f"executor=slurm: no {program} on this machine: run it on a node that submits jobs")

    def submit(self, parts: Sequence[Path], need: Need, job_name: str) -> list[str]:
        """See `ClusterEngine.submit`."""
        parameters = self._parameters(need, job_name)
        found = []
        for part in parts:
            try:
                executor = SlurmExecutor(part.parent / "submitit")
                executor.update_parameters(**parameters)
                found.append(str(executor.submit(SlurmPart(), str(part)).job_id))
            except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError) as error:
                self.cancel(found)
                raise UserError(f"executor=slurm: Slurm refuses the job: {_last_line(str(error))}") from error
        return found

    def _parameters(self, need: Need, job_name: str) -> dict[str, object]:
        given = {name: value for name, value in asdict(self._config).items() if value not in (None, [], {})}
        given.pop("nodes", None)
        gpus = {"gpus_per_node": need.num} if need.device == Device.gpu else {}
        others = {"requeue": True, "mem": 0, **given.pop("additional_parameters", {})}  # 0: the node's whole memory
        # A step binds its task to one core by default.
        node = {"nodes": 1, "ntasks_per_node": 1, "exclusive": True, "srun_args": ["--cpu-bind=none"]}
        return {"job_name": job_name, **node, **gpus, **given, "additional_parameters": others}

    def states(self, jobs: Sequence[str]) -> Mapping[str, str]:
        """See `ClusterEngine.states`."""
        return states(jobs)

    def cancel(self, jobs: Sequence[str]) -> None:
        """See `ClusterEngine.cancel`."""
        if jobs:
            subprocess.run(["scancel", *jobs], capture_output=True, timeout=TIMEOUT_S, check=False)


def states(jobs: Sequence[str]) -> dict[str, str]:
    """Job -> its state, of those that have not ended; every job has the state `UNKNOWN` if Slurm does not answer."""
    if not jobs:
        return {}
    # All jobs of the user: if one of those that are asked for by name is forgotten, squeue shows none of them.
    command = ["squeue", "--noheader", "--me", "--format=%i %T"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return dict.fromkeys(jobs, UNKNOWN)
    found = dict(line.split() for line in answer.splitlines())
    return {job: found[job] for job in jobs if job in found}


class SlurmPart(submitit.helpers.Checkpointable):
    """What submitit pickles: it runs the part at the path that it is called with.

    At the time limit, and when the job is preempted, submitit has Slurm requeue it.
    """

    def __call__(self, path: str) -> None:
        """Runs the part."""
        run_part(path, os.environ["SLURM_JOB_ID"], _Alive())

    def checkpoint(self, path: str) -> DelayedSubmission:
        """The same part: it goes on where it stopped."""
        return DelayedSubmission(self, path)


class _Alive:
    """Whether a job is alive, asked of Slurm at most every `ASK_S` while it is."""

    def __init__(self) -> None:
        self._asked_at: dict[str, float] = {}

    def __call__(self, job: str) -> bool:
        now = time.monotonic()
        if now - self._asked_at.get(job, -ASK_S) < ASK_S:
            return True
        if job not in states([job]):
            return False
        self._asked_at[job] = now
        return True


def _last_line(text: str) -> str:
    """What a command of Slurm's says at last."""
    lines = [line.strip() for line in text.splitlines() if "error: " in line or "fatal: " in line]
    return one_line(lines[-1]) if lines else "no reason was given"
