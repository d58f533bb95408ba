import os
import signal
import subprocess
import sys

import pytest

from accelbench.data.folder import replacing
from accelbench.errors import BusyError, DataError


@pytest.fixture
def earlier(tmp_path):
    path = tmp_path / "set"
    path.mkdir()
    (path / "value").write_text("earlier")
    return path


def killed_while_replacing(path, code):
    """Runs `code` (it knows `path`, `new`, `die`) inside the block, in a process that kills itself."""
    program = f"""
import os, pathlib, signal
from accelbench.data.folder import replacing
path = pathlib.Path({os.fspath(path)!r})
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with replacing(path) as new:
    (new / "value").write_text("half of the new")
    {code}
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == -signal.SIGKILL


def replace(path, text):
    with replacing(path) as new:
        (new / "value").write_text(text)


def names(folder):
    return sorted(name for name in os.listdir(folder) if not name.endswith(".lock"))


def test_takes_the_place_of_the_earlier_folder(earlier):
    replace(earlier, "new")
    assert (earlier / "value").read_text() == "new"
    assert names(earlier.parent) == ["set"]


def test_makes_the_folder_and_those_above_it(tmp_path):
    replace(tmp_path / "a" / "b", "first")
    assert (tmp_path / "a" / "b" / "value").read_text() == "first"


def test_an_error_leaves_the_earlier_folder_whole(earlier):
    def fail():
        with replacing(earlier) as new:
            (new / "value").write_text("half of the new")
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        fail()
    assert (earlier / "value").read_text() == "earlier"
    assert names(earlier.parent) == ["set"]


def test_a_kill_leaves_the_earlier_folder_whole_and_the_next_run_clears_up(earlier):
    killed_while_replacing(earlier, "die()")
    assert (earlier / "value").read_text() == "earlier"
    assert names(earlier.parent) == [".set.new", "set"]
    replace(earlier, "new")
    assert (earlier / "value").read_text() == "new"
    assert names(earlier.parent) == ["set"]


def test_a_kill_between_the_two_renames_loses_nothing(earlier):
    # The second rename is the one that puts the new folder in place.
    killed_while_replacing(
        earlier,
        "rename = pathlib.Path.rename; pathlib.Path.rename = "
        "lambda self, to: die() if to == path else rename(self, to)",
    )
    assert names(earlier.parent) == [".set.new", ".set.old"]
    seen = []

    def fail():
        with replacing(earlier):
            seen.append((earlier / "value").read_text())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert seen == ["earlier"]
    assert names(earlier.parent) == ["set"]


def test_a_failing_rename_puts_the_earlier_folder_back(earlier, monkeypatch):
    rename = type(earlier).rename

    def failing(self, target):
        if self.name == ".set.new":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(type(earlier), "rename", failing)
    with pytest.raises(DataError, match="No space left"):
        replace(earlier, "new")
    assert (earlier / "value").read_text() == "earlier"
    assert names(earlier.parent) == ["set"]


def test_two_of_the_same_at_once_are_refused_and_others_go_on(earlier):
    with replacing(earlier) as new:
        with pytest.raises(BusyError, match="another process"):
            replace(earlier, "other")
        replace(earlier.with_name("other"), "other")
        (new / "value").write_text("new")
    assert (earlier / "value").read_text() == "new"
    assert (earlier.with_name("other") / "value").read_text() == "other"


def test_a_file_in_its_place_is_kept(tmp_path):
    (tmp_path / "set").write_text("mine")
    with pytest.raises(DataError, match="set: a file is in the way"):
        replace(tmp_path / "set", "new")
    assert (tmp_path / "set").read_text() == "mine"


def test_a_file_above_it_is_a_clear_error(tmp_path):
    (tmp_path / "data").write_text("mine")
    with pytest.raises(DataError, match="not written"):
        replace(tmp_path / "data" / "set", "new")


def test_a_link_to_a_folder_elsewhere_stays_a_link(earlier, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(earlier)
    replace(link, "new")
    assert link.is_symlink()
    assert (earlier / "value").read_text() == "new"
