"""Repositories made here, whose network waits longer from one commit on."""

import math
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from accelbench.cli import main
from accelbench.errors import UserError
from accelbench.judging.disturbed import DISTURBED
from accelbench.project import RECORDS
from accelbench.schema.measurement import Block
from accelbench.schema.record import read
from accelbench.schema.serialize import read_json
from accelbench.schema.vocab import Status
from accelbench.search.worktrees import Worktree, commits
from accelbench.sweep.session import Session
from beside import BUSY, quiet, series
from fakes import make_measurement, make_record
from marks import slow

NET = """{first}
import time, torch
from mine.wait import SECONDS

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, inputs):
        time.sleep(SECONDS)
        return self.layer(inputs)

def batch(batch_size):
    return torch.randn(batch_size, 4)
"""
CELL = "model=custom model.target=mine.nets.Net model.batch=mine.nets.batch mode=infer batch_size=2 tracking=none"
SHORT = "breakdown_s=0 window.warmup_s=0.05 window.warmup_steps=2 window.measure_s=0.3 window.block_s=0.05"
WORDS = f"{CELL} {SHORT} window.latency_s=0.02".split()
NUM, BROKEN, ALIKE, CULPRIT = 8, 4, 3, 6  # ALIKE: only its notes differ from the one before


def git(*words):
    named = ["-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *named, *words], check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Eight commits after the first: one that does not run, one without code, and the slow one."""
    here = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(here)
        return fill(here)


@pytest.fixture
def repository(made, here):
    return shutil.copytree(made, here, dirs_exist_ok=True)


def fill(here):
    git("init", "-q", "-b", "main")
    (here / "mine").mkdir()
    (here / "mine/__init__.py").touch()
    for num in range(NUM + 1):
        (here / "mine/wait.py").write_text(f"SECONDS = {0.04 if num >= CULPRIT else 0.02}\n")
        first = "import gone" if num == BROKEN else f"NUM = {num - (num == ALIKE)}"
        (here / "mine/nets.py").write_text(NET.format(first=first))
        (here / "notes.md").write_text(str(num))
        git("add", "mine", "notes.md")
        git("commit", "-qm", f"Change {num}")
        git("tag", f"change{num}")
    (here / "mine/nets.py").write_text("no Python: what is not committed does not count\n")
    return here


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("gone HEAD", "GOOD=gone: no revision of this repository"),
        ("HEAD change0", "GOOD=HEAD: the branch of BAD=change0 was never there"),
        ("HEAD change8", "GOOD=HEAD, BAD=change8: are one commit"),
        ("change0 HEAD --budget soon", "--budget soon: should be a time"),
        ("change0 HEAD -- model=mlp", "model=mlp: no code of this repository"),
        ("change0 HEAD -- protocol=offline", "protocol=offline: bisect compares speeds: use window, steps or fit"),
        ("change0 HEAD -- out=elsewhere", "out=elsewhere: should be a folder under runs/"),
        ("change0 HEAD -- model.batch=mine.nets.gone", "GOOD={}: model.batch=mine.nets.gone: the module"),
        ("change2 HEAD -- model.target=torch.nn.ReLU model.batch=null", "model.target=torch.nn.ReLU: is not among"),
    ],
)
def test_what_can_not_be_searched_is_said(words, message, repository, capsys):
    given, _, settings = words.partition(" -- ")
    assert main(["bisect", *given.split(), "--", *([] if "model=mlp" in words else WORDS), *settings.split()]) == 2
    assert message.format(git("rev-parse", "change0")[0][:8]) in capsys.readouterr().err
    assert len(git("worktree", "list")) == 1


def test_outside_of_a_repository(here, capsys):
    assert main(["bisect", "a", "b", "--", *WORDS]) == 2
    assert capsys.readouterr().err.startswith("accelbench: bisect: not a git repository")


def test_a_merge_is_one_commit_of_the_branch(repository):
    git("stash", "-q")
    git("checkout", "-q", "-b", "side", "change7")
    git("commit", "-q", "--allow-empty", "-m", "On the side")
    git("checkout", "-q", "main")
    git("merge", "-q", "--no-ff", "-m", "Merge", "side")
    assert [each.subject for each in commits("change6", "HEAD")] == ["Change 6", "Change 7", "Change 8", "Merge"]
    assert [each.subject for each in commits("change0", "change1")] == ["Change 0", "Change 1"]  # has no parent
    with pytest.raises(UserError, match="GOOD=side: the branch of BAD=HEAD was never there"):
        commits("side", "HEAD")
    codes = [each.code() for each in commits("change1", "change4")]
    assert [codes.index(each) for each in codes] == [0, 1, 1, 3]  # notes are no code


@pytest.mark.parametrize("end", [Mock(side_effect=KeyboardInterrupt), lambda _: signal.raise_signal(signal.SIGTERM)])
def test_ctrl_c_and_a_kill_leave_no_worktree(end, repository, monkeypatch, capsys):
    monkeypatch.setattr(Session, "__enter__", end)
    monkeypatch.setenv("GIT_INDEX_FILE", os.path.abspath(".git/index"))  # as in a hook
    index = Path(".git/index").read_bytes()
    here, words = os.getcwd(), ["bisect", "change0", "HEAD", "--", *WORDS]
    before = signal.getsignal(signal.SIGTERM)
    assert main(words) == 130
    assert signal.getsignal(signal.SIGTERM) == before
    assert f"To go on: accelbench {' '.join(words)} out=runs/bisect-" in capsys.readouterr().err
    assert len(git("worktree", "list")) == 1
    assert (os.getcwd(), Path(".git/index").read_bytes()) == (here, index)


def test_the_working_folder_and_the_path_are_those_of_the_worktree(repository, monkeypatch):
    (repository / "uncommitted").mkdir()
    monkeypatch.chdir("mine")
    monkeypatch.setattr(sys, "path", [str(repository), "", str(repository / "uncommitted"), *sys.path])
    path = sys.path[:]
    starts = f"import os, sys; sys.path.append({str(repository)!r}); from accelbench.isolation.host_process import main"
    with Worktree.of(commits("change4", "change5")[0]) as tree:
        with tree.inside():
            assert (Path.cwd(), sys.path) == (tree.folder / "mine", [str(tree.folder), "", *dict.fromkeys(path[3:])])
            assert "import gone" in Path("nets.py").read_text()
            host = [sys.executable, "-c", f"{starts}; main(os.dup(1)); print(sys.path)"]
            printed = subprocess.run(host, input="[]\n", capture_output=True, text=True, check=True).stdout
            assert "site-packages" in printed
            assert f"{str(repository)!r}" not in printed
        assert (Path.cwd(), sys.path) == (repository / "mine", path)
    assert not tree.folder.exists()


@pytest.mark.parametrize(("part", "asked"), [(f"change{CULPRIT}:mine/wait.py", "worktree"), ("HEAD^{tree}", "ls-tree")])
def test_a_commit_that_can_not_be_read_is_named_and_does_not_count_as_broken(part, asked, repository, capsys):
    (missing,) = git("rev-parse", part)
    Path(".git/objects", missing[:2], missing[2:]).unlink()  # as on a disk that is full, or broken
    assert main(["bisect", "change0", "HEAD", "--", *WORDS]) == 2
    printed, (head,) = capsys.readouterr(), git("rev-parse", "HEAD")
    assert f"git {asked} {head}: " in printed.err
    assert "does not run" not in printed.out + printed.err


@pytest.fixture
def ran(repository, monkeypatch):
    """Each process as (commit, its time limit); they run nothing, and end as `ends` says of (commit, round)."""
    commits = {each: f"change{num}" for num in range(NUM + 1) for each in git("rev-parse", f"change{num}")}
    ran = SimpleNamespace(ends={}, processes=[], check_s=None)

    def measure(self, item, left_s=0.0):
        commit, num = commits[self.ready.git["revision"]], len(ran.processes)
        ran.processes.append((commit, item.cell.timeout_s))
        ran.check_s = self.check_s
        rate = (1000 if commit < f"change{CULPRIT}" else 800) * (1 + 0.01 * math.sin(num))
        blocks = [Block(num_steps=1, num_samples=100, seconds=100 / rate)] * 8
        status = ran.ends.get((commit, int(item.label.rpartition("r")[2])), Status.ok)
        found = {"system": series(BUSY if status == DISTURBED else quiet())}
        if status in (Status.ok, DISTURBED):
            status, found["measurement"] = Status.ok, make_measurement(blocks=blocks, steady_boot_s=(101.0, 102.0))
        named = {"identity": item.identity, "label": item.label, "started_at": f"2026-11-27T09:00:00.{num:03}+00:00"}
        self.context.write_record(record := make_record(item.cell, status, **named, **found))
        return record

    monkeypatch.setattr(Session, "__enter__", lambda self: self)
    monkeypatch.setattr(Session, "measure", measure)
    return ran


def test_the_proof_has_processes_of_its_own_and_single_ones_that_fail_do_not_count(ran, repository, capsys):
    ran.ends = {("change8", 3): Status.killed, ("change6", 0): Status.timeout, ("change5", 0): Status.oom}
    assert main(["bisect", "change5", "HEAD", "--", *WORDS]) == 0
    assert f"First slower commit: {git('rev-parse', 'change6')[0]} Change 6" in capsys.readouterr().out
    found = read_json(next(repository.glob("runs/*/bisect.json")))
    assert all("-proof/" in path and (repository / path).exists() for path in found["proof"]["records"])
    assert {len(list(folder.glob(RECORDS))) for folder in repository.glob("runs/*/*/")} == {12}
    assert {each["state"] for each in found["commits"]} == {"slower"}


@pytest.mark.parametrize(
    ("ends", "num", "code", "said"),
    [
        (["killed"] * 2, 4, 2, "BAD={}: does not run: .*-r1: killed: .*; retry=failed measures"),
        slow(["ok", *["killed"] * 3], 8, 1, "slower than GOOD: {}-r3: killed: .*; retry=failed measures"),
        (["ok", *["oom"] * 3], 8, 1, r"slower than GOOD: {}-r3: oom: for \[a\] reason\n"),
    ],
)
def test_what_keeps_failing_ends_the_search_with_its_reason(ends, num, code, said, ran, capsys):
    words = ["bisect", "--budget", "1m", "change5", "HEAD", "--", *WORDS]
    ran.ends = {("change8", at): Status(end) for at, end in enumerate(ends)}
    assert main(words) == code
    printed = capsys.readouterr()
    assert re.search(said.format(git("rev-parse", "HEAD")[0][:8]), printed.out + printed.err)
    assert num - 1 <= len(ran.processes) <= num  # GOOD's may come first in a round
    assert ("longer --budget" in printed.out) == ("longer --budget" in said)
    ran.ends = {}
    assert "oom" in ends or main([*words, "retry=failed"]) == 0


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ({("change5", 0): Status.timeout}, "1 of 6 processes took over timeout_s=600, and"),
        ({("change8", at): DISTURBED for at in range(40)}, "other programs disturbed 40 of 80 processes .others used"),
    ],
)
def test_processes_that_do_not_count_are_in_the_answer(ends, said, ran, capsys):
    ran.ends = ends
    assert main(["bisect", "change5", "HEAD", "--", *WORDS]) == 1
    assert re.search(f"Can't tell whether BAD is slower than GOOD: {said}", capsys.readouterr().out)


def test_a_process_has_what_is_left_of_the_budget(ran, capsys):
    words = ["bisect", "--budget", "1m", "change5", "HEAD", "--", *WORDS]
    ran.ends = {("change8", 3): Status.timeout}
    assert main(words) == 1
    assert "Can't tell whether BAD is slower than GOOD: give it a longer --budget" in capsys.readouterr().out
    assert all(50 < limit_s <= 60 for limit_s in [ran.check_s, *(limit_s for _, limit_s in ran.processes)])
    ran.ends, ran.processes = {}, []
    assert main(words[:1] + words[3:]) == 0  # with the default: the one that was cut runs again
    assert ran.processes[0] == ("change8", 600.0)


@pytest.mark.slow
def test_the_slow_commit_of_a_real_repository_is_found_and_a_second_run_measures_nothing(repository, capsys):
    words = ["bisect", "change0", "HEAD", "--budget", "10m", "--", *WORDS]
    assert main(words) == 0
    told = capsys.readouterr().out
    assert re.search("beside [0-9a-f]{8}: 8 commits left; [0-9]+ s of 10 min\n", told)
    assert "  1 round: 1 and 1 processes; it takes 5 a side; " in told
    told = re.sub("Probing.*\n|.* of 10 min\n", "", told)
    records = {path: path.stat().st_mtime_ns for path in repository.rglob(RECORDS)}
    assert "No module named 'gone'" in told
    assert f"First slower commit: {git('rev-parse', 'change6')[0]} Change 6" in told
    assert main(words) == 0
    assert re.sub(".* of 10 min\n", "", capsys.readouterr().out) == told
    assert records == {path: path.stat().st_mtime_ns for path in repository.rglob(RECORDS)}
    found = read_json(next(repository.glob("runs/*/bisect.json")))
    assert (found["proof"]["commit"]["subject"], found["proof"]["against"]["subject"]) == ("Change 6", "Change 5")
    assert found["proof"]["found"]["high"] < 0.75
    before, after = (read(repository / path) for path in found["proof"]["records"])
    assert before.environment["git"]["revision"] == git("rev-parse", "change5")[0]
    assert after.environment["git"]["revision"] == git("rev-parse", "change6")[0]
    assert len(git("worktree", "list")) == 1
