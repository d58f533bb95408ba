"""Locks, and folders of a process: what a killed process held or left is free for the next one."""

import contextlib
import os
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import psutil
import pytest

from accelbench import lifeline, lock
from accelbench.errors import UserError
from fakes import is_gone

HOLD = """
import os, sys
from pathlib import Path
from accelbench.lock import hold, hold_measuring
os.setuid(int(sys.argv[2]))
def say(line): print(line, flush=True)
with hold(Path(sys.argv[1]), "a test") if sys.argv[1] else hold_measuring(say):
    say("held")
    sys.stdin.read()
"""
ME, NOBODY = os.getuid(), 65534


@contextlib.contextmanager
def process(path, folder, user=ME):
    """A process that holds the lock of `path`, or measures as soon as it may, with a temporary folder of its own."""
    folder.mkdir()
    pipes = {"text": True, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", HOLD, str(path), str(user)]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(folder)}, **pipes) as started:
        yield started
        started.kill()


def test_a_second_holder_is_told_who_has_it_and_one_that_waits_gets_it_when_its_holder_is_killed(tmp_path):
    with process(path := tmp_path / "a.lock", tmp_path / "a") as holder:
        assert holder.stdout.readline() == "held\n"
        told = rf"^the sweep \(process {holder.pid}\) is under way"
        with pytest.raises(UserError, match=told), lock.hold(path, "the sweep"):
            pytest.fail("two at once")
        threading.Timer(0.1, holder.kill).start()
        with lock.hold(path, "another writer", patience_s=30):
            assert path.read_text() == str(os.getpid())


@pytest.mark.parametrize("target", ["target", "missing", Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_not_locked_and_what_it_points_to_stays(tmp_path, target):
    (tmp_path / "target").write_text("another's")
    path = tmp_path / "a.lock"
    path.symlink_to(target) if isinstance(target, str) else target(path)
    with pytest.raises(UserError, match=r"a.lock: not a file"), lock.hold(path, "a test"):
        pytest.fail("held")
    assert ((tmp_path / "target").read_text(), (tmp_path / "missing").exists()) == ("another's", False)


is_root = pytest.mark.skipif(ME != 0, reason="only root may become another user")


@pytest.mark.parametrize(("user", "end"), [(ME, "ends"), pytest.param(NOBODY, "is killed", marks=is_root)])
def test_all_measurements_of_a_machine_take_turns(tmp_path, user, end):
    with process("", tmp_path / "a", user) as first:
        assert first.stdout.readline() == "held\n"
        with process("", tmp_path / "b") as second:
            assert second.stdout.readline().startswith(f"Waiting for another measurement (process {first.pid})")
            first.stdin.close() if end == "ends" else first.kill()
            assert second.stdout.readline() == "held\n"


def test_locks_may_have_long_names(monkeypatch):
    with contextlib.ExitStack() as stack:
        for name in ("a", "b"):
            monkeypatch.setenv(lock.VARIABLE, f"/{'long/' * 50}{name}")
            stack.enter_context(lock.hold_measuring(pytest.fail, 0.0))


# A process that holds a folder, and one of another session that says it uses it.
HOLD_FOLDER = """
import os, subprocess, sys, time
from accelbench import lifeline
with lifeline.scratch_folder() as folder:
    env = {**os.environ, lifeline.RUN_VARIABLE: f"{folder}/0"}
    user = subprocess.Popen(["sleep", "20"], env=env, start_new_session=True, stdout=subprocess.DEVNULL)
    while not open(f"/proc/{user.pid}/environ").read():  # empty for a moment after the process was started
        pass
    (folder / "link").symlink_to(sys.argv[1])
    print(folder, user.pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def base(monkeypatch):
    """TMPDIR, with a short path; pytest's own folders are elsewhere."""
    with tempfile.TemporaryDirectory() as base:
        monkeypatch.setattr(tempfile, "tempdir", base)
        yield Path(base)


def test_what_is_in_use_or_not_ours_stays_and_what_a_killed_process_left_goes_with_who_used_it(
    base, tmp_path, monkeypatch
):
    (tmp_path / "others").write_text("not ours")
    other, file, foreign = (base / f"{lifeline.PREFIX}{name}" for name in ("link", "file", "foreign"))
    other.symlink_to(tmp_path)
    file.touch()
    foreign.mkdir()
    stays = {other, file}
    if os.getuid() == 0:
        os.chown(foreign, 65534, 65534)
        stays.add(foreign)
    command, env = [sys.executable, "-c", HOLD_FOLDER, str(tmp_path)], {**os.environ, "TMPDIR": str(base)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as holder:
        name, user = holder.stdout.readline().split()
        with lifeline.scratch_folder() as folder:
            assert set(base.iterdir()) == stays | {folder, Path(name)}
            (folder / "a").mkdir()
        assert psutil.pid_exists(int(user))
        holder.kill()
    assert Path(name).exists()
    with lifeline.scratch_folder() as folder:
        assert set(base.iterdir()) == stays | {folder}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert is_gone(int(user))
    assert (tmp_path / "others").read_text() == "not ours"
    monkeypatch.setattr(tempfile, "tempdir", str(base / "missing"))
    with pytest.raises(UserError, match="TMPDIR=.*missing: no folder can be made there"), lifeline.scratch_folder():
        pytest.fail("made")
