import os
import subprocess
import sys
from functools import partial

from accelbench.cluster import job as on_node
from accelbench.cluster.job import ClusterEngine
from accelbench.isolation.hosts import Hosts
from fakes import TESTS, faulty_host


class ProcessEngine(ClusterEngine):  # starts a process for each part; as Slurm's, they go on without their controller
    name = "processes"

    def __init__(self, num_jobs=1):
        self.num_jobs = num_jobs
        self.processes = {}  # by job

    def submit(self, part, need, job_name):
        variables = {**os.environ, "PYTHONPATH": str(TESTS), "ACCELBENCH_LOCK": f"{os.getpid()}-{len(self.processes)}"}
        process = subprocess.Popen([sys.executable, __file__, str(part)], env=variables)
        self.processes[str(process.pid)] = process
        return str(process.pid)

    def states(self, job_name):
        return {job: "RUNNING" for job, process in self.processes.items() if process.poll() is None}

    def cancel(self, jobs):
        for job in jobs:
            self.processes[job].terminate()


if __name__ == "__main__":
    on_node.Hosts = partial(Hosts, faulty_host)
    on_node.run_part(sys.argv[1], str(os.getpid()))
