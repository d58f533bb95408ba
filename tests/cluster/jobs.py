"""An engine whose jobs are processes of this machine, and what such a process runs."""

import os
import subprocess
import sys
from pathlib import Path

from accelbench.cluster.controller import ClusterEngine
from accelbench.cluster.job import run_part
from accelbench.isolation.hosts import Hosts
from fakes import TESTS, faulty_host


class ProcessEngine(ClusterEngine):
    """Starts a process for each part; as Slurm's, they go on without their controller."""

    name = "processes"
    jobs_outlive = True

    def __init__(self, num_jobs=1):
        self.num_jobs = num_jobs
        self.processes = {}
        self.needs = []

    def submit(self, parts, need, job_name):
        for part in parts:
            variables = {**os.environ, "PYTHONPATH": str(TESTS), "ACCELBENCH_LOCK": str(part)}
            process = subprocess.Popen([sys.executable, __file__, str(part)], env=variables)
            self.processes[str(process.pid)] = process
            self.needs.append(str(need))
            yield str(process.pid)

    def states(self, jobs, job_name):
        for job in jobs:
            if job in self.processes:
                self.processes[job].poll()
        return {job: "RUNNING" for job in jobs if is_alive(job)}

    def cancel(self, jobs):
        for job in jobs:
            if is_alive(job):
                os.kill(int(job), 15)


def is_alive(job):
    try:
        return Path(f"/proc/{job}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    run_part(sys.argv[1], str(os.getpid()), is_alive, lambda: Hosts(faulty_host))
