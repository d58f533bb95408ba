import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest

from accelbench.cli import main
from accelbench.project import RECORDS, workplace
from accelbench.schema.cell import Status
from accelbench.schema.measurement import Block
from accelbench.schema.record import read, write
from accelbench.schema.serialize import read_json
from accelbench.search.bisect import checked_out
from accelbench.sweep.session import Session
from fakes import make_measurement, make_options, make_record

NET = """{first}
import time, torch

class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 4)

    def forward(self, inputs):
        time.sleep({seconds})
        return super().forward(inputs)

def batch(batch_size):
    return torch.randn(batch_size, 4)
"""
CELL = "model=custom model.target=mine.nets.Net model.batch=mine.nets.batch mode=infer batch_size=2 tracking=none"
SHORT = "breakdown_s=0 window.warmup_s=0.05 window.warmup_steps=2 window.measure_s=0.3 window.block_s=0.05"
WORDS = f"{CELL} {SHORT} window.latency_s=0.02".split()
NUM, BROKEN, CULPRIT = 8, 4, 6


def git(*words):
    named = ["-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *named, *words], check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Eight commits after the first: one that does not run, and one from which on it is slow."""
    here = tmp_path_factory.mktemp("made")
    nets = here / "mine/nets.py"
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(here)
        git("init", "-q", "-b", "main")
        nets.parent.mkdir()
        (here / "mine/__init__.py").touch()
        for num in range(NUM + 1):
            first = "import gone" if num == BROKEN else f"NUM = {num}"
            nets.write_text(NET.format(first=first, seconds=0.04 if num >= CULPRIT else 0.02))
            git("add", "mine")
            git("commit", "-qm", f"Change {num}")
            git("tag", f"change{num}")
    nets.write_text("no Python: what is not committed does not count\n")
    return here


@pytest.fixture
def repository(made, here):
    return shutil.copytree(made, here, dirs_exist_ok=True)


def bisect(good, bad, *settings):
    return main(["bisect", good, bad, "--", *([] if "model=mlp" in settings else WORDS), *settings])


@pytest.mark.parametrize(
    ("good", "bad", "settings", "message"),
    [
        ("gone", "HEAD", [], "GOOD=gone: the git repository has no such commit"),
        ("HEAD~1", "HEAD~1..HEAD", [], "BAD=HEAD~1..HEAD: the git repository has no such commit"),
        ("HEAD~1", "^HEAD", [], "BAD=^HEAD: the git repository has no such commit"),
        ("HEAD", "change2", [], "is not after GOOD="),
        ("change0", "HEAD", ["model.batch=mine.nets.gone"], "model.batch=mine.nets.gone: mine.nets has no gone."),
        ("change2", "HEAD", ["model.target=torch.nn.ReLU", "model.batch=null"], "Use a model.target from this repo"),
        ("change0", "HEAD", ["model=mlp", "protocol=offline"], "bisect compares speeds: use window, "),
    ],
)
def test_what_can_not_be_searched_is_said(good, bad, settings, message, repository, capsys):
    assert bisect(good, bad, *settings) == 2
    assert message in capsys.readouterr().err
    assert len(git("worktree", "list")) == 1


@pytest.mark.parametrize(
    "end", [Mock(side_effect=KeyboardInterrupt), lambda *_, **__: signal.raise_signal(signal.SIGTERM)]
)
def test_ctrl_c_and_a_kill_leave_no_worktree(end, repository, monkeypatch, capsys):
    monkeypatch.setattr(Session, "measuring", end)
    monkeypatch.setenv("GIT_INDEX_FILE", os.path.abspath(".git/index"))  # as in a hook
    index = Path(".git/index").read_bytes()
    here, before = os.getcwd(), signal.getsignal(signal.SIGTERM)
    assert bisect("change0", "HEAD") == 130
    assert signal.getsignal(signal.SIGTERM) == before
    assert "To go on: the same command with out=runs/bisect-" in capsys.readouterr().err
    assert len(git("worktree", "list")) == 1
    assert (os.getcwd(), Path(".git/index").read_bytes()) == (here, index)


def test_the_working_folder_and_the_path_are_those_of_the_worktree(repository, monkeypatch):
    monkeypatch.chdir("mine")
    monkeypatch.setattr(sys, "path", [str(repository), "", *sys.path])
    path = sys.path[:]
    session = Session(make_options(), None, None, workplace(), repository, "")
    with checked_out(git("rev-parse", "change4")[0], session) as tree:
        with tree.inside():
            assert (Path.cwd(), sys.path) == (tree.folder / "mine", [str(tree.folder), *path[1:]])
            assert "import gone" in Path("nets.py").read_text()
        assert (Path.cwd(), sys.path) == (repository / "mine", path)
    assert not tree.folder.exists()


@pytest.fixture
def fates(repository, monkeypatch):
    """(commit, round) -> the status of a process. The processes run nothing; those from change6 on are slower."""
    commits = {commit: f"change{num}" for num in range(NUM + 1) for commit in git("rev-parse", f"change{num}")}
    fates = {}

    def measure(self, item, left_s=0.0):
        commit = commits.get(self.ready.git["revision"], f"change{NUM}")  # the merge is as slow as the last
        num = item.cell.repeat
        rate = (1000 if commit < f"change{CULPRIT}" else 800) * (1 + 0.001 * (num % 7))
        measured = make_measurement(blocks=[Block(num_steps=1, num_samples=100, seconds=100 / rate)] * 8)
        status = fates.get((commit, int(item.label.rpartition("r")[2])), Status.ok)
        named = {"identity": item.identity, "label": item.label, "started_at": f"2026-11-27T09:00:00.{num:03}+00:00"}
        named |= {"user_error": status == Status.failed, "measurement": measured if status == Status.ok else None}
        write(record := make_record(item.cell, status, **named), self.folder)
        return record

    monkeypatch.setattr(Session, "measuring", lambda *_, **__: nullcontext())
    monkeypatch.setattr(Session, "measure", measure)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")  # git may be set to another language
    return fates


FOUND = r"First slower commit: \w{40} Change 6\nAgainst GOOD: -[12][0-9.]+ % "
UNSURE = "Can't tell whether BAD is slower than GOOD: "


@pytest.mark.parametrize(
    ("failing", "status", "rounds", "code", "reason"),
    [
        ([6], Status.killed, [1], 0, FOUND),
        ([6, 7], Status.killed, [0, 1], 1, r"which of these 3 [^:]*:(\n.*)*\n  \w{40} Change 7\n"),
        ([8], Status.killed, [0, 1], 1, f"{UNSURE}2 and 0 processes; "),
        ([3], Status.killed, [0, 1], 1, f"{UNSURE}0 and 2 processes; "),
        ([3], Status.failed, [0, 1], 1, f"{UNSURE}0 and 2 processes; "),  # a mistake of GOOD is none of BAD
    ],
)
def test_processes_that_fail_are_left_out(failing, status, rounds, code, reason, fates, capsys):
    fates |= {(f"change{commit}", num): status for commit in failing for num in rounds}
    assert bisect("change3", "HEAD") == code
    assert re.search(reason, capsys.readouterr().out)


def test_only_commits_of_the_branch_of_bad_are_tried_and_none_between_ends_of_one_speed(fates, capsys):
    git("stash", "-q")
    git("checkout", "-q", "-b", "side", "change3")
    git("commit", "-q", "--allow-empty", "-m", "On the side")
    git("checkout", "-q", "main")
    git("merge", "-q", "--no-ff", "-m", "Merge", "side")
    assert bisect("change3", "HEAD") == 0
    text = capsys.readouterr().out
    assert re.search(FOUND, text)
    assert "On the side" not in text
    assert bisect("change0", "change3") == 1
    assert "No slow-down to look for: BAD is not slower than GOOD" in capsys.readouterr().out


@pytest.mark.slow
def test_the_slow_commit_of_a_real_repository_is_found_and_a_second_run_measures_nothing(repository, capsys):
    assert bisect("change2", "change6") == 0
    about_peaks = r"(Measuring the peak|The peak speed) .*\n"  # once more if the machine was busy
    printed = re.sub(rf"{about_peaks}|.*-r0: failed: .*\n", "", capsys.readouterr().out)
    records = {path: path.stat().st_mtime_ns for path in repository.rglob(RECORDS)}
    assert "skip: does not run: " in printed
    assert "No module named 'gone'" in printed
    good, bad = (git("rev-parse", name)[0] for name in ("change2", "change6"))
    assert f"First slower commit: {bad} Change 6" in printed
    assert bisect("change2", "change6") == 0
    assert re.sub(about_peaks, "", capsys.readouterr().out) == printed
    assert records == {path: path.stat().st_mtime_ns for path in repository.rglob(RECORDS)}
    folder = next(repository.glob(f"runs/*/{good[:8]}-{bad[:8]}"))
    for side, commit in zip(read_json(folder / "compare.json")["sides"], (good, bad), strict=True):
        assert {read(folder / f"{name}.json").environment["git"]["revision"] for name in side["records"]} == {commit}
    assert len(git("worktree", "list")) == 1
