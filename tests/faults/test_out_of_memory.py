"""The kernel kills a cell for memory, in a control group of the sweep's own."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from accelbench.schema.plan_file import read_planned
from accelbench.schema.vocab import Status
from fakes import TESTS, make_project

LIMIT = 300_000_000  # bytes: several times what a sweep needs, and hardly more than the cell `allocate` takes
SWEEP = """
import sys; sys.path.insert(0, sys.argv[1])
from rich.console import Console
from accelbench.isolation.hosts import Hosts
from accelbench.settings.config import Retry, SweepOptions
from accelbench.sweep import run
from fakes import faulty_host, make_cell
options = SweepOptions(
    suite="test", title="", study=None, profile=None, tracking="none", out="runs/oom", retry=Retry.none
)
with Hosts(faulty_host) as hosts:
    run.run([make_cell(), make_cell("allocate"), make_cell(batch_size=8)], options, Console(), hosts=hosts)
"""
GROUPS = Path("/sys/fs/cgroup")

pytestmark = pytest.mark.faults


@contextmanager
def limited_group():
    """The words before a command that run it with `LIMIT` bytes; skips the test where there is no way."""
    for parent, file in control_groups():
        group = parent / f"accelbench-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / file).write_text(str(LIMIT))
            yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
        finally:
            group.rmdir()
        return
    for mode in ([], ["--user"]) if shutil.which("systemd-run") else ():
        scope = ["systemd-run", *mode, "--quiet", "--scope", "-p", f"MemoryMax={LIMIT}", "-p", "MemorySwapMax=0"]
        if not subprocess.run([*scope, "true"], capture_output=True).returncode:
            yield scope
            return
    pytest.skip("no control group with a memory limit can be made here: it needs root, or systemd")


def control_groups():
    """The groups of this process that can limit memory, and the file that has the limit: of version 2, of version 1."""
    listed = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    second = GROUPS / listed.get("", "").lstrip("/")
    controllers = second / "cgroup.subtree_control"
    if controllers.exists() and "memory" in controllers.read_text().split():
        yield second, "memory.max"
    if "memory" in listed:
        yield GROUPS / "memory" / listed["memory"].lstrip("/"), "memory.limit_in_bytes"


def test_a_cell_that_the_kernel_kills_for_memory_is_a_record_and_the_sweep_goes_on(tmp_path):
    project = make_project(tmp_path / "project")
    environment = {**os.environ, "ACCELBENCH_LOCK": str(tmp_path)}
    with limited_group() as words:
        command = [*words, sys.executable, "-c", SWEEP, str(TESTS)]
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    records = list(read_planned(project / "runs/oom"))
    assert [record.status for record in records] == [Status.ok, Status.oom, Status.ok]
    assert records[1].reason == "killed by the kernel: out of memory"
    assert records[1].measurement is None
