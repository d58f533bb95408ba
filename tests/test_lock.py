import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from accelbench import lock
from accelbench.errors import BusyError

HOLD = """
import sys, time
from pathlib import Path
from accelbench.lock import hold
with hold(Path(sys.argv[1]), "a test"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.lock"


@pytest.fixture
def holder(path):
    """Another process that holds the lock."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_holder_is_told_who_has_it(holder, path):
    told = rf"^the sweep \(process {holder.pid}\) is under way"
    with pytest.raises(BusyError, match=told), lock.hold(path, "the sweep"):
        pytest.fail("two at once")


def test_it_is_free_again_when_its_holder_is_killed(holder, path):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with lock.hold(path, "the sweep"):
        assert path.read_text() == str(os.getpid())


def test_it_is_free_again_after_an_error(path):
    with pytest.raises(ZeroDivisionError), lock.hold(path, "the sweep"):
        1 / 0  # noqa: B018
    with lock.hold(path, "the sweep"):
        assert path.read_text() == str(os.getpid())


def test_one_that_waits_says_so_once_and_goes_on_when_it_is_free(holder, path):
    told, got = [], threading.Event()

    def wait():
        with lock.hold(path, "another measurement", told.append):
            got.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    deadline = time.monotonic() + 30
    while not told and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(told) == 1
    assert f"another measurement (process {holder.pid})" in told[0]
    assert not got.wait(0.1)
    holder.kill()
    waiter.join(30)
    assert got.is_set()
    assert len(told) == 1


def test_the_holder_is_named_and_no_earlier_one(path):
    path.write_text("123456789012")
    told = rf"\(process {os.getpid()}\)"
    with lock.hold(path, "one"), pytest.raises(BusyError, match=told), lock.hold(path, "two"):
        pytest.fail("two at once")


def test_all_sweeps_of_a_machine_share_one_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert lock.measuring_lock().parent == tmp_path
    assert lock.measuring_lock() == lock.measuring_lock()
