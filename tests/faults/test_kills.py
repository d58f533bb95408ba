"""Random kills of all processes that a sweep has, and of the server that it delivers to.

FAULTS_SEED chooses them; else they are others each time.
"""

import fcntl
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter

import psutil
import pytest

from accelbench.lifeline import end_with_parent
from accelbench.schema.vocab import Status
from accelbench.sinks.ui import DIRECT
from fakes import make_project
from faults.beds import SEED, Bed, Sweeper, is_true

NUM_KILLS, NUM_CELLS = 100, 40
SIZES = range(1, NUM_CELLS + 1)
# What befalls a process, and how many of the kills.
KILLS = {
    ("sweep", signal.SIGKILL): 30,
    ("host", signal.SIGKILL): 18,
    ("forkserver", signal.SIGKILL): 16,
    ("cell", signal.SIGKILL): 18,
    ("tracker", signal.SIGKILL): 4,
    ("server", signal.SIGKILL): 4,
    ("server", signal.SIGSTOP): 1,
    ("cell", signal.SIGSTOP): 4,
    ("forkserver", signal.SIGSTOP): 2,
    ("host", signal.SIGSTOP): 2,
    ("sweep", signal.SIGSTOP): 1,
}
LONGEST_WAIT_S = 0.8  # until the next kill; a sweep starts in half of it
STOPPED_S = 1.0  # for how long a server or a sweep is stopped; other processes stay so

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:.*noload:DeprecationWarning"),  # MLflow's own models
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
]


class Server:
    """MLflow's server, which is started again after it was killed."""

    def __init__(self, folder):
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"

    def start(self):
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db"]
        command += ["--artifacts-destination", f"{self.folder}/mlartifacts"]
        quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
        with (self.folder / "server.log").open("a") as log:
            self.process = subprocess.Popen(
                command,
                env=os.environ | quiet,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,  # a process group, which `kill` ends
                preexec_fn=end_with_parent,
            )

    def await_answer(self):
        deadline = time.monotonic() + 120
        while True:
            try:
                return DIRECT.open(f"{self.uri}/health", timeout=5).close()
            except OSError:
                assert time.monotonic() < deadline, (self.folder / "server.log").read_text()
                time.sleep(0.1)

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def server(tmp_path):
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    server.start()
    server.await_answer()
    yield server
    server.kill()


def role_of(process: psutil.Process) -> str:
    """Which of a sweep's processes this one is."""
    words, words_of_parent = (" ".join(each.cmdline()) for each in (process, process.parent()))
    if "multiprocessing.forkserver" in words:
        return "cell" if "multiprocessing.forkserver" in words_of_parent else "forkserver"
    return "tracker" if "resource_tracker" in words else "host"


def victims(bed: Bed, role: str, sweep: int) -> list[psutil.Process]:
    """The processes of this role, at this moment."""
    if role == "sweep":
        return [psutil.Process(sweep)] if psutil.pid_exists(sweep) else []
    found = []
    for process in bed.processes():
        try:
            if role_of(process) == role:
                found.append(process)
        except (psutil.Error, AttributeError):  # ended meanwhile
            continue
    return found


def strike(bed: Bed, server: Server, sweep: int, role: str, number: int) -> bool:
    """Sends the signal to a process of this role; False if there was none."""
    if role == "server":
        if number == signal.SIGKILL:
            server.kill()
            server.start()
        else:
            os.killpg(server.process.pid, number)
            time.sleep(STOPPED_S)
            os.killpg(server.process.pid, signal.SIGCONT)
        return True
    for victim in victims(bed, role, sweep)[:1]:
        try:
            victim.send_signal(number)
            if role == "sweep" and number == signal.SIGSTOP:
                time.sleep(STOPPED_S)
                victim.resume()
        except psutil.NoSuchProcess:
            return False
        return True
    return False


def test_a_sweep_survives_a_hundred_kills(tmp_path, server, capsys):
    """It is started again until it is complete, and then anew, until all kills are done."""
    generator = random.Random(SEED)
    kills = [kill for kill, num in KILLS.items() for _ in range(num)]
    generator.shuffle(kills)
    assert len(kills) == NUM_KILLS
    ends, num_sweeps, start = Counter(), 0, time.monotonic()
    with Sweeper("mlflow", MLFLOW_TRACKING_URI=server.uri) as sweeper:
        bed = Bed(make_project(tmp_path / "made"), tmp_path / "bed", sweeper, "mlflow")
        while kills:
            num_sweeps += 1
            out, is_complete = f"runs/kills{num_sweeps}", False
            while not is_complete:
                sweep = bed.start(SIZES, out=out, fault="last", cell_timeout_s=3.0, timeout_s=120.0)
                is_killed = False
                while kills and not is_killed and psutil.pid_exists(sweep):
                    time.sleep(generator.uniform(0, LONGEST_WAIT_S))
                    role, number = kills[-1]
                    kills.insert(0, kills.pop())  # another one, if there is no such process at the moment
                    if strike(bed, server, sweep, role, number):
                        del kills[0]
                        is_killed = (role, number) == ("sweep", signal.SIGKILL)
                code, printed = bed.wait()
                ends[code] += 1
                assert code in ((0, 1, -9) if is_killed else (0, 1)), printed
                assert "Traceback" not in printed
                found = bed.records(out)
                assert all(map(is_true, found.values()))
                assert len(found) == len(bed.files(out))
                is_complete = code == 0
            assert sorted(found) == list(SIZES)
            assert {record.status for record in found.values()} == {Status.ok}
            assert bed.left_running() == []
            bed.let_an_hour_pass()
            assert bed.run(SIZES, out=out, fault="last")[0] == 0
            assert bed.left_behind(out) == []
        server.await_answer()
        code, printed = bed.run([], words=["sync"])
        assert code == 0, printed
    with capsys.disabled():
        seconds = time.monotonic() - start
        print(
            f"seed {SEED}: {NUM_KILLS} kills, {num_sweeps} sweeps of {NUM_CELLS} cells, {dict(ends)}, {seconds:.0f} s"
        )
    assert_delivered(bed, server, num_sweeps)
    assert_no_lock_is_held(bed)


def assert_delivered(bed, server, num_sweeps):
    """Each record has one finished run, and no run is unfinished."""
    from mlflow import MlflowClient

    client = MlflowClient(server.uri)
    experiment = client.get_experiment_by_name("accelbench/test")
    runs = client.search_runs([experiment.experiment_id], max_results=10_000)
    keys = Counter((run.data.tags["record"], run.data.tags["started_at"]) for run in runs)
    records = [record for i in range(num_sweeps) for record in bed.records(f"runs/kills{i + 1}").values()]
    assert {keys[record.name, record.started_at] for record in records} == {1}
    assert max(keys.values()) == 1
    assert {run.info.status for run in runs} <= {"FINISHED", "KILLED", "FAILED"}
    # Those of records that were measured again.
    ok = {(record.name, record.started_at) for record in records}
    others = [run for run in runs if (run.data.tags["record"], run.data.tags["started_at"]) not in ok]
    assert {run.data.tags["status"] for run in others} <= {"killed", "timeout", "failed"}


def assert_no_lock_is_held(bed):
    for path in bed.watched.rglob("*.lock"):
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
