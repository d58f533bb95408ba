"""An engine whose jobs are processes of this machine, and what such a process runs."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from accelbench.cluster import job as on_node
from accelbench.cluster.controller import ClusterEngine
from accelbench.isolation.hosts import Hosts
from fakes import TESTS, faulty_host


class ProcessEngine(ClusterEngine):
    """Starts a process for each part; as Slurm's, they go on without their controller."""

    name = "processes"

    def __init__(self, num_jobs=1):
        self.num_jobs, self.needs = num_jobs, []
        self.processes = {}  # by job

    def submit(self, parts, need, job_name):
        for part in parts:
            variables = {**os.environ, "PYTHONPATH": str(TESTS), "ACCELBENCH_LOCK": str(part)}
            process = subprocess.Popen([sys.executable, __file__, str(part)], env=variables)
            self.processes[str(process.pid)] = process
            self.needs.append(str(need))
            yield str(process.pid)

    def states(self, jobs, job_name):
        return {job: "RUNNING" for job in jobs if self.is_alive(job)}

    def is_alive(self, job):
        if job in self.processes:
            return self.processes[job].poll() is None
        return Path(f"/proc/{job}").exists()  # of another controller

    def cancel(self, jobs):
        for job in jobs:
            if self.is_alive(job):
                os.kill(int(job), 15)


if __name__ == "__main__":
    on_node.Hosts = partial(Hosts, faulty_host)
    on_node.run_part(sys.argv[1], str(os.getpid()))
