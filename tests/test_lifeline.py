import os
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


def test_a_folder_is_this_users_and_ends_with_its_context(base, monkeypatch):
    with lifeline.scratch_folder() as folder:
        assert os.listdir(base) == [folder.name]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "a").mkdir()
    assert os.listdir(base) == []
    monkeypatch.setattr(tempfile, "tempdir", str(base / "missing"))
    with pytest.raises(UserError, match="TMPDIR=.*missing: no folder can be made there"), lifeline.scratch_folder():
        pytest.fail("made")


def test_what_is_in_use_or_not_ours_stays_and_what_a_killed_process_left_goes_with_who_used_it(base, tmp_path):
    (tmp_path / "others").write_text("not ours")
    other, file, foreign = (base / f"{lifeline.PREFIX}{name}" for name in ("link", "file", "foreign"))
    other.symlink_to(tmp_path)
    file.touch()
    foreign.mkdir()
    stays = {other, file}
    if os.getuid() == 0:
        os.chown(foreign, 65534, 65534)
        stays.add(foreign)
    command, env = [sys.executable, "-c", HOLD, str(tmp_path)], {**os.environ, "TMPDIR": str(base)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as holder:
        name, user = holder.stdout.readline().split()
        with lifeline.scratch_folder() as folder:
            assert set(base.iterdir()) == stays | {folder, Path(name)}
        assert psutil.pid_exists(int(user))
        holder.kill()
    assert Path(name).exists()
    with lifeline.scratch_folder() as folder:
        assert set(base.iterdir()) == stays | {folder}
    assert is_gone(int(user))
    assert (tmp_path / "others").read_text() == "not ours"
