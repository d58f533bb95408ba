"""Random kills of all processes that a sweep has; and commands that read its folder while it writes.

FAULTS_SEED chooses the kills; else they are others each time.
"""

import copy
import fcntl
import random
import signal
import time
from collections import Counter

import psutil
import pytest

from accelbench.schema import record
from accelbench.schema.vocab import Status
from fakes import make_project
from faults.beds import OUT, SEED, Bed, Sweeper, is_true, wrong_runs

NUM_CELLS = 40
SIZES = range(1, NUM_CELLS + 1)
# What befalls a process, and how many of the kills.
KILLED = {"sweep": 10, "host": 6, "forkserver": 5, "cell": 6, "tracker": 2}
STOPPED = {"cell": 2, "forkserver": 1, "host": 1, "sweep": 1}
KILLS = {(name, signal.SIGKILL): num for name, num in KILLED.items()}
KILLS |= {(name, signal.SIGSTOP): num for name, num in STOPPED.items()}
LONGEST_WAIT_S = 0.8  # until the next kill; a sweep starts in half of it
STOPPED_S = 1.0  # for how long a sweep is stopped; other processes stay so

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]


def role_of(process: psutil.Process) -> str | None:
    """Which of a sweep's processes this one is; None if it has ended."""
    try:
        words, words_of_parent = (" ".join(each.cmdline()) for each in (process, process.parent()))
    except (psutil.Error, AttributeError):
        return None
    if "multiprocessing.forkserver" in words:
        return "cell" if "multiprocessing.forkserver" in words_of_parent else "forkserver"
    return "tracker" if "resource_tracker" in words else "host"


def strike(bed: Bed, sweep: int, role: str, number: int) -> bool:
    """Sends the signal to a process of this role; False if there was none."""
    try:
        if role == "sweep":
            victim = psutil.Process(sweep)
        else:
            victim = next(process for process in bed.processes() if role_of(process) == role)
        victim.send_signal(number)
        if role == "sweep" and number == signal.SIGSTOP:
            time.sleep(STOPPED_S)
            victim.resume()
    except (psutil.NoSuchProcess, StopIteration):
        return False
    return True


def disturb(bed: Bed, sweep: int, kills: list, generator: random.Random) -> bool:
    """Kills processes of a sweep until it ends; whether it was killed itself."""
    while kills and psutil.pid_exists(sweep):
        time.sleep(generator.uniform(0, LONGEST_WAIT_S))
        role, number = kills.pop()
        if not strike(bed, sweep, role, number):
            kills.insert(0, (role, number))  # another one, if there is no such process at the moment
        elif (role, number) == ("sweep", signal.SIGKILL):
            return True
    return False


def test_a_sweep_survives_kills_of_all_its_processes(tmp_path, capsys):
    """It is started again until it is complete, and then anew, until all kills are done."""
    generator = random.Random(SEED)
    kills = [kill for kill, num in KILLS.items() for _ in range(num)]
    generator.shuffle(kills)
    ends, outs, start = Counter(), [], time.monotonic()
    with Sweeper("mlflow") as sweeper:
        bed = Bed(make_project(tmp_path / "made"), tmp_path / "bed", sweeper, "mlflow")
        while kills:
            outs.append(out := f"runs/kills{len(outs)}")
            code = None
            while code != 0:
                sweep = bed.start(SIZES, out=out, fault="last", cell_timeout_s=3.0, timeout_s=120.0)
                is_killed = disturb(bed, sweep, kills, generator)
                code, printed = bed.wait()
                ends[code] += 1
                assert code in ((0, 1, -9) if is_killed else (0, 1)), printed
                assert "Traceback" not in printed
                found = bed.records(out)
                assert all(map(is_true, found.values()))
                assert len(found) == len(bed.files(out))
            assert sorted(found) == list(SIZES)
            assert {each.status for each in found.values()} == {Status.ok}
            assert bed.left_running() == []
            bed.let_an_hour_pass()
            assert bed.run(SIZES, out=out, fault="last")[0] == 0
            assert bed.left_behind(out) == []
        code, printed = bed.run([], words=["sync"])
        assert code == 0, printed
    with capsys.disabled():
        print(f"seed {SEED}: {len(outs)} sweeps of {NUM_CELLS} cells, {dict(ends)}, {time.monotonic() - start:.0f} s")
    assert wrong_runs(bed, *outs) == []
    for path in bed.watched.rglob("*.lock"):
        with path.open() as file:  # nobody holds it
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_who_reads_while_a_sweep_measures_sees_whole_records_alone(tmp_path):
    with Sweeper() as sweeper, Sweeper() as other:
        bed = Bed(make_project(tmp_path / "made"), tmp_path / "bed", sweeper)
        reader = copy.copy(bed)
        reader.sweeper, reader.output = other, tmp_path / "read"
        reader.output.touch()
        bed.start(SIZES, fault="last")
        deadline = time.monotonic() + 60
        while len(bed.files()) < len(SIZES):
            assert time.monotonic() < deadline
            for words in (["best", OUT], ["merge", OUT, "--into", "merged"], ["report", OUT]) if bed.files() else ():
                code, printed = reader.run([], words=words)
                assert "Traceback" not in printed
                assert code == 0, printed
                assert "not a readable record" not in printed
        code, printed = bed.wait()
        assert code == 0, printed
        found = bed.records()
        assert sorted(found) == list(SIZES)
        assert all(map(is_true, found.values()))
        code, printed = reader.run([], words=["merge", OUT, "--into", "merged"])
        assert code == 0, printed
        merged = [record.read(path) for path in bed.project.glob("merged/*/*-*.json")]
        assert {each.name: each for each in merged} == {each.name: each for each in found.values()}
