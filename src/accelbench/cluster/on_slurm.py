"""Runs the parts of a sweep as jobs of Slurm, submitted with submitit."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import submitit
from submitit.slurm.slurm import SlurmExecutor

from accelbench.cluster.job import ClusterEngine, Need, run_part
from accelbench.errors import UserError
from accelbench.schema.cell import Device
from accelbench.schema.text import one_line
from accelbench.settings.config import SlurmConfig

TIMEOUT_S = 60.0  # time limit of a Slurm command
PENDING = "PENDING"
UNKNOWN = "no answer"  # state of each job while Slurm does not answer
LOGS = "submitit"  # folder of submitit's pickles and of the jobs' logs
PROGRAMS = ("sbatch", "squeue", "scancel")


class SlurmEngine(ClusterEngine):
    """Submits jobs that do not share their node. If a node is lost, Slurm requeues its job."""

    name = "Slurm"

    def __init__(self, config: SlurmConfig) -> None:
        self._config = config
        self.num_jobs = config.nodes or 1
        for program in PROGRAMS:
            if shutil.which(program) is None:
                raise UserError(
                    f"executor=slurm: no {program} on this machine: run it on a node that submits jobs"
                )

    def submit(self, part: Path, need: Need, job_name: str) -> str:
        chosen = {name: value for name, value in asdict(self._config).items() if value not in (None, [], {})}
        chosen.pop("nodes", None)
        gpus = {"gpus_per_node": need.num} if need.device == Device.gpu else {}
        others = {
            "requeue": True,
            "mem": 0,
            **chosen.pop("additional_parameters", {}),
        }  # 0: all memory
        # Without this argument, a step binds its task to one core.
        node = {"nodes": 1, "ntasks_per_node": 1, "exclusive": True, "srun_args": ["--cpu-bind=none"]}
        parameters = {"job_name": job_name, **node, **gpus, **chosen, "additional_parameters": others}
        executor = SlurmExecutor(part.parent / LOGS)
        executor.update_parameters(**parameters)
        try:
            return str(executor.submit(SlurmPart(), str(part)).job_id)
        except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError) as error:
            raise UserError(f"executor=slurm: Slurm refuses the job: {_last_line(str(error))}") from error

    def states(self, job_name: str) -> Mapping[str, str]:
        """See the base class. If Slurm does not answer, the result has the state `UNKNOWN` for `job_name`."""
        command = ["squeue", "--noheader", "--me", f"--name={job_name}", "--format=%i|%T|%r"]
        try:
            answer = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return {job_name: UNKNOWN}
        states = {}
        for line in answer.splitlines():
            job, state, reason = line.split("|", maxsplit=2)
            states[job] = f"{state.lower()} ({reason})" if state == PENDING else state.lower()
        return states

    def cancel(self, jobs: Sequence[str]) -> None:
        if not jobs:
            return
        try:
            done = subprocess.run(
                ["scancel", *jobs], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UserError(f"executor=slurm: scancel failed: {one_line(str(error))}") from error
        if done.returncode:
            raise UserError(f"executor=slurm: scancel failed: {_last_line(done.stderr)}")


class SlurmPart(submitit.helpers.Checkpointable):
    """The object that submitit pickles. It runs a part of a sweep.

    If its job reaches its time limit or is preempted, submitit requeues the job with the same arguments.
    """

    def __call__(self, path: str) -> None:
        run_part(path, os.environ["SLURM_JOB_ID"])


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if "error: " in line or "fatal: " in line]
    return one_line(lines[-1]) if lines else "no reason was given"
