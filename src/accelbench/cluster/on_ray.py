"""Runs the parts of a sweep as tasks of Ray."""

import contextlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Set before the import: Ray would send usage statistics.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from accelbench.cluster.job import ClusterEngine, Need, run_part
from accelbench.errors import UserError
from accelbench.schema.text import one_line
from accelbench.settings.config import RayConfig

LOCAL = "local"
LOOPBACK = "127.0.0.1"
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
THREADS = "OMP_NUM_THREADS"  # Ray sets this variable to the CPUs of a task; without Ray it is not set


class RayEngine(ClusterEngine):
    """Starts tasks that take whole nodes. If a node is lost, Ray repeats its task. Tasks end with the controller."""

    name = "Ray"

    def __init__(self, config: RayConfig) -> None:
        self._config = config
        self.num_jobs = config.nodes or 1
        self._tasks: dict[str, Any] = {}
        self._num_on = Counter[str]()  # node -> number of its tasks
        # Without an address, Ray would start a cluster that others can reach.
        address = config.address or "auto"
        try:
            if address == LOCAL:
                _start_on_loopback()
            else:
                ray.init(address=address, **QUIET)
        except (ConnectionError, ValueError, RuntimeError) as error:
            problem = (
                f"executor.ray.address={address}: no Ray cluster at this address ({one_line(str(error))})"
            )
            raise UserError(f"{problem}; executor.ray.address=local starts one on this machine") from error

    def submit(self, part: Path, need: Need, job_name: str) -> str:
        resource = need.device.value.upper()
        nodes = [
            node for node in ray.nodes() if node["Alive"] and node["Resources"].get(resource, 0) >= need.num
        ]
        if not nodes:
            raise UserError(f"executor=ray: no node of this cluster has {need}")
        node = min(nodes, key=lambda node: (self._num_on[node["NodeID"]], -node["Resources"].get("CPU", 0)))
        self._num_on[node["NodeID"]] += 1
        task = _run.options(
            name=job_name,
            num_cpus=node["Resources"].get("CPU", 0),
            num_gpus=node["Resources"].get("GPU", 0),
            max_retries=3 if self._config.num_retries is None else self._config.num_retries,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=True),
        )
        job = f"ray-{part.parent.name}-{part.stem}"
        self._tasks[job] = task.remote(str(part), job, THREADS in os.environ)
        return job

    def states(self, job_name: str) -> Mapping[str, str]:
        # Tasks of another controller ended with it.
        tasks = list(self._tasks.values())
        _, waiting = ray.wait(tasks, num_returns=len(tasks), timeout=0) if tasks else ([], [])
        return {job: "submitted" for job, task in self._tasks.items() if task in waiting}

    def cancel(self, jobs: Sequence[str]) -> None:
        for job in jobs:
            ray.cancel(self._tasks[job], force=True)
            with contextlib.suppress(RayError, GetTimeoutError):
                ray.get(self._tasks[job], timeout=10)

    def close(self) -> None:
        ray.shutdown()


def _start_on_loopback() -> None:
    """Starts Ray on the loopback address only. Ray's dashboard is not started, as it would run jobs of any user."""
    ray.init(address=LOCAL, include_dashboard=False, **QUIET)
    if any(node["NodeManagerAddress"] != LOOPBACK for node in ray.nodes()):
        ray.shutdown()
        raise UserError(
            f"executor.ray.address={LOCAL}: Ray {ray.__version__} listens on other addresses than {LOOPBACK}, so it "
            "was stopped: set the address of a cluster"
        )


@ray.remote  # type: ignore[untyped-decorator]
def _run(path: str, job: str, keeps_threads: bool) -> None:
    if not keeps_threads:
        os.environ.pop(THREADS, None)
    run_part(path, job)
