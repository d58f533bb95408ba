import os
import signal
import subprocess
import sys

import psutil
import pytest

from accelbench.lifeline import end_marked

PARENT = """
import subprocess, sys, time
from accelbench.lifeline import end_with_parent
preexec = end_with_parent if sys.argv[1] == "tied" else None
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], preexec_fn=preexec)
print(child.pid, flush=True)
time.sleep(60)
"""


def ends(process, within_s):
    try:
        psutil.wait_procs([process], timeout=within_s)
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
@pytest.mark.parametrize("tie", ["tied", "free"])
def test_a_child_ends_when_its_parent_is_killed_only_where_it_is_tied(tie):
    with subprocess.Popen([sys.executable, "-c", PARENT, tie], stdout=subprocess.PIPE, text=True) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        os.kill(parent.pid, signal.SIGKILL)
    assert ends(child, within_s=10 if tie == "tied" else 0.3) == (tie == "tied")
    if tie == "free":
        child.kill()


def test_a_process_ends_whose_environment_has_the_mark_and_no_other_one():
    marks = ["x/1", "x/10", "y"]
    env = [{**os.environ, "ACCELBENCH_TEST_MARK": f"{os.getpid()}{mark}"} for mark in marks]
    started = [subprocess.Popen(["sleep", "20"], env=each, start_new_session=True) for each in env]
    end_marked(f"ACCELBENCH_TEST_MARK={os.getpid()}x/1\0")
    assert started[0].wait() == -signal.SIGKILL
    assert [process.poll() for process in started[1:]] == [None, None]
    end_marked(f"ACCELBENCH_TEST_MARK={os.getpid()}")
    assert [process.wait() for process in started] == [-signal.SIGKILL] * 3
