import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from accelbench import lifeline
from accelbench.errors import UserError
from fakes import is_gone

# A process that holds a folder, and one of another session that says it uses it.
HOLD = """
import os, subprocess, sys, time
from accelbench import lifeline
with lifeline.scratch_folder() as folder:
    env = {**os.environ, lifeline.RUN_VARIABLE: f"{folder}/0"}
    user = subprocess.Popen(["sleep", "20"], env=env, start_new_session=True, stdout=subprocess.DEVNULL)
    while not open(f"/proc/{user.pid}/environ").read():  # empty for a moment after the process was started
        pass
    (folder / "pipe").mkdir()
    (folder / "link").symlink_to(sys.argv[1])
    print(folder, user.pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def base(tmp_path, monkeypatch):
    """TMPDIR, with a short path; pytest's own folders are elsewhere."""
    with tempfile.TemporaryDirectory() as base:
        monkeypatch.setattr(tempfile, "tempdir", base)
        yield Path(base)


@pytest.fixture
def holder(base, tmp_path):
    """Another process, its folder, and the process id of the one that uses it."""
    (tmp_path / "others").write_text("not ours")
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(base)}, stdout=subprocess.PIPE, text=True) as held:
        folder, pid = held.stdout.readline().split()
        yield held, Path(folder), int(pid)
        held.kill()


def test_a_folder_is_this_users_and_ends_with_its_context(base, monkeypatch):
    with lifeline.scratch_folder() as folder:
        assert os.listdir(base) == [folder.name]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "a").mkdir()
    assert os.listdir(base) == []
    monkeypatch.setattr(tempfile, "tempdir", str(base / "missing"))
    with pytest.raises(UserError, match="TMPDIR=.*missing: no folder can be made there"), lifeline.scratch_folder():
        pytest.fail("made")


def test_what_a_killed_process_left_is_removed_and_who_used_it_is_killed(holder, base, tmp_path):
    held, left, user = holder
    held.send_signal(signal.SIGKILL)
    held.wait()
    assert left.exists()
    with lifeline.scratch_folder() as folder:
        assert os.listdir(base) == [folder.name]
    assert is_gone(user)
    assert (tmp_path / "others").read_text() == "not ours"


def test_what_is_in_use_or_no_folder_of_ours_stays(holder, base, tmp_path):
    _, used, user = holder
    other, file, foreign = (base / f"{lifeline.PREFIX}{name}" for name in ("link", "file", "foreign"))
    other.symlink_to(tmp_path)
    file.touch()
    foreign.mkdir()
    stays = {used, other, file}
    if os.getuid() == 0:
        os.chown(foreign, 65534, 65534)
        stays.add(foreign)
    with lifeline.scratch_folder() as folder:
        assert set(base.iterdir()) == stays | {folder}
    assert psutil.pid_exists(user)
    assert (tmp_path / "others").read_text() == "not ours"
