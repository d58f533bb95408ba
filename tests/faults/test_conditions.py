"""The commands under odd conditions: other users, folders that can't be written, odd paths, streams and variables.

Also clocks that jump, quotas, terminals that close, and servers that are no tracker.
"""

import os
import pty
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from accelbench import lock
from accelbench.grid.fingerprint import fingerprint
from accelbench.judging.row import summarise, warnings_of
from accelbench.project import CEILINGS as CEILINGS_FILE
from accelbench.schema import record
from accelbench.schema.ceilings import write_ceilings
from accelbench.schema.plan_file import read_planned
from accelbench.schema.vocab import Engine, Status
from fakes import TESTS, make_project
from faults.test_records import CEILINGS
from tests.sinks import servers

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1200)]

ROOT = TESTS.parent
ODD = "pfad mit ümlaut 'x' und \"y\""
WINDOW = {"measure_s": 0.05, "warmup_s": 0.02, "latency_s": 0.05, "block_s": 0.01}
TINY = ["model=mlp", "model.args.widths=[8]", "data=mnist", "mode=infer", "device=cpu", "batch_size=8"]
TINY += ["breakdown_s=0"]
TINY += ["tracking=none", *(f"window.{name}={value}" for name, value in WINDOW.items())]
NOBODY = 54_321  # a user without an entry in /etc/passwd
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A project on a machine that was probed before, since a probe takes 20 s."""
    root = make_project(tmp_path_factory.mktemp("template"))
    write_ceilings(root, fingerprint(Engine.lightning), "cpu", CEILINGS)
    return root


@pytest.fixture
def project(template, tmp_path):
    return Path(shutil.copytree(template, tmp_path / "project"))


def accelbench(project, *words, prefix=(), without=(), **options):
    """Runs a command in `project`: its exit status and what it printed, which has no traceback."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MLFLOW_TRACKING_URI", *without)}
    environment |= {"PYTHONPATH": str(ROOT / "src")} | options.pop("environment", {})
    outputs = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"} | options
    command = [*prefix, sys.executable, "-m", "accelbench.cli", *words]
    done = subprocess.run(command, cwd=project, env=environment, timeout=600, **outputs)
    assert "Traceback" not in (done.stdout or ""), done.stdout
    assert "Traceback" not in (done.stderr or ""), done.stderr
    return done.returncode, done.stdout


def is_measured(folder):
    """Whether all cells of the plan in `folder` are ok."""
    found = list(read_planned(folder))
    return bool(found) and all(each.status == Status.ok for each in found)


def as_nobody():
    """The words before a command that make it another user's.

    If only root may enter the folder of Python, as in root's home, the user may read everything, and write nothing.
    """
    python = Path(sys.executable).resolve()
    if all(folder.stat().st_mode & 1 for folder in [*python.parents, *ROOT.parents]):
        return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    reads = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *reads]


def give(path, user):
    """Makes `path`, and what is below it, the user's."""
    for each in [path, *path.rglob("*")]:
        os.chown(each, user, user)


def test_paths_with_spaces_umlauts_and_quotes(template, tmp_path):
    project = Path(shutil.copytree(template, tmp_path / ODD))
    out = f"runs/{ODD}"
    assert accelbench(project, *TINY, "tracking=mlflow", f"out={out}")[0] == 0
    assert is_measured(project / out)
    assert accelbench(project, *TINY, "batch_size=16", f"out={out}-b")[0] == 0
    assert accelbench(project, "sync")[1] == "MLflow: 1 runs delivered, 1 already there.\n"
    for words in (["best", out], ["report", out], ["compare", "--anyway", out, f"{out}-b"], ["doctor"]):
        status, shown = accelbench(project, *words)
        assert status == 0, shown
    assert (project / out / "report/index.html").exists()


def test_long_paths(template, tmp_path):
    """Of the project, and of the temporary folder, in which there are sockets: their paths have 107 bytes at most."""
    folder = tmp_path / ("d" * 200) / ("e" * 200)
    (folder / "tmp").mkdir(parents=True)
    project = Path(shutil.copytree(template, folder / "project"))
    status, shown = accelbench(project, *TINY, "out=runs/a", environment={"TMPDIR": str(folder / "tmp")})
    assert status == 0, shown
    assert is_measured(project / "runs/a")
    for words in (["best"], ["report"], ["compare", "b"]):
        assert accelbench(project, *words, "x" * 300)[0] == 2
    assert accelbench(project, *TINY, f"out=runs/{'x' * 300}")[0] == 2


@is_root
def test_a_user_without_a_name_or_a_home_who_hides_files(project):
    """In a container, a user may have a number alone."""
    give(project, NOBODY)
    options = {"prefix": as_nobody(), "umask": 0o077, "environment": {"HOME": "/nonexistent", "LANG": "C"}}
    for words in (["plan", *TINY], [*TINY, "tracking=mlflow", "out=runs/a"], ["best", "runs/a"], ["report", "runs/a"]):
        status, shown = accelbench(project, *words, **options)
        assert status == 0, shown
    assert accelbench(project, "sync", **options)[1] == "MLflow: 0 runs delivered, 1 already there.\n"
    assert is_measured(project / "runs/a")


@is_root
def test_a_checkout_that_can_not_be_written(project):
    give(project, 0)
    options = {"prefix": as_nobody(), "environment": {"HOME": "/nonexistent"}}
    status, shown = accelbench(project, "plan", *TINY, **options)
    assert status == 0, shown
    status, shown = accelbench(project, *TINY, "out=runs/a", **options)
    assert status == 2
    assert shown.startswith("accelbench: out=runs/a: not writable (Permission denied)")
    (project / "runs").mkdir()
    os.chown(project / "runs", NOBODY, NOBODY)
    status, shown = accelbench(project, *TINY, "tracking=mlflow", "out=runs/a", **options)
    assert status == 0, shown
    assert "1 runs did not reach MLflow (mlflow.lock: not writable (Permission denied))" in " ".join(shown.split())
    assert is_measured(project / "runs/a")
    assert accelbench(project, "sync", **options) == (2, "accelbench: mlflow.lock: not writable (Permission denied)\n")
    for words in (["best", "runs/a"], ["report", "runs/a"], ["doctor"]):
        assert accelbench(project, *words, **options)[0] == 0
    assert sorted(path.name for path in project.iterdir()) == [CEILINGS_FILE, "conf", "data", "params.yaml", "runs"]


def test_variables_of_a_bare_environment(project):
    status, shown = accelbench(
        project,
        *[*TINY, "out=runs/a"],
        without=("HOME", "USER", "LOGNAME", "LANG", "PATH", "TERM"),
        environment={"TMPDIR": "/nonexistent", "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )
    assert status == 0, shown
    assert is_measured(project / "runs/a")
    assert accelbench(project, "best", "runs/a", environment={"LC_ALL": "POSIX", "PYTHONUTF8": "0"})[0] == 0


def test_outputs_that_are_full_or_closed(project):
    with Path("/dev/full").open("w") as full:
        assert accelbench(project, *TINY, "out=runs/full", stdout=full, stderr=subprocess.PIPE)[0] == 2
    assert is_measured(project / "runs/full")
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]
    assert accelbench(project, *TINY, "out=runs/closed", prefix=closed)[0] == 0
    assert is_measured(project / "runs/closed")
    assert {record.read(path).error for path in project.glob("runs/*/*-*.json")} == {None}


@pytest.mark.parametrize("clock", ["+0 x10", "+0 x0.1", "-400d", "@2020-01-01 00:00:00"])
def test_nothing_is_measured_by_clocks_that_a_library_replaces(project, clock):
    library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    if library is None:
        pytest.skip("needs Debian's package libfaketime")
    environment = {"LD_PRELOAD": str(library), "FAKETIME": clock}
    status, shown = accelbench(project, *TINY, "out=runs/a", environment=environment)
    assert status == 2
    assert "accelbench: libfaketime replaces the clocks, so that nothing can be timed" in shown
    assert not list(project.rglob("runs/a/*-*.json"))


@contextmanager
def cpu_group(cores):
    """A control group whose processes may use so many cores; gives the file that takes their numbers."""
    v1, v2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    group = (v1 if v1.is_dir() else v2) / f"accelbench-test-{os.getpid()}"
    quota = round(100_000 * cores)
    try:
        group.mkdir()
        if v1.is_dir():
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} 100000")
    except OSError:
        if group.is_dir():
            group.rmdir()
        pytest.skip("needs the right to make control groups with a limit on the processor")
    try:
        yield group / "cgroup.procs"
    finally:
        deadline = time.monotonic() + 30
        while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
        group.rmdir()


def test_a_cell_that_a_quota_throttles_says_so(project):
    with cpu_group(0.6) as processes:
        prefix = ["sh", "-c", f'echo $$ > {processes} && exec "$@"', "sh"]
        words = [*TINY, "window.measure_s=1", "model.args.widths=[512,512]", "out=runs/a"]
        status, shown = accelbench(project, *words, prefix=prefix)
    assert status == 0, shown
    (found,) = read_planned(project / "runs/a")
    assert [line for line in warnings_of(summarise(found)) if "CPU quota was used up for" in line]


def test_a_terminal_that_closes_leaves_whole_records_and_the_next_start_goes_on(project, monkeypatch):
    """The kernel then sends SIGHUP to the sweep."""
    monkeypatch.setenv("ACCELBENCH_LOCK", str(project))
    words = ["-m", *TINY, "batch_size=1,2,4", "window.measure_s=1", "out=runs/a"]
    words.remove("batch_size=8")
    folder, marker = project / "runs/a", f"HANGS_UP={project}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HANGS_UP": str(project)}
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(project)
        os.execve(sys.executable, [sys.executable, "-m", "accelbench.cli", *words], environment)
    os.set_blocking(terminal, False)
    deadline = time.monotonic() + 120
    while len(list(folder.glob("*-*.json"))) < 2:  # the first one is judged then
        assert time.monotonic() < deadline
        time.sleep(0.05)
        with suppress(BlockingIOError):
            os.read(terminal, 65536)  # else it would wait for its reader
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0
    while left := processes_with(marker):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    assert not lock.is_measuring()
    before = {path: path.read_bytes() for path in folder.glob("*-*.json")}
    for path in before:
        record.read(path)
    status, shown = accelbench(project, *words)
    assert status == 0, shown
    assert is_measured(folder)
    assert "of 3 cells have their record already" in shown


def processes_with(marker):
    """The processes that have the marker in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            found += [path.parent.name] * (marker.encode() in path.read_bytes().split(b"\0"))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("kind", ["unauthorized", "redirects_to_itself"])
def test_a_server_that_is_no_tracker_costs_a_line_and_no_record(project, kind):
    words = [*(word for word in TINY if word != "tracking=none"), "tracking=mlflow", "out=runs/a"]
    with servers.server(kind) as address:
        status, shown = accelbench(project, *words, environment={"MLFLOW_TRACKING_URI": address})
    assert status == 0, shown
    assert is_measured(project / "runs/a")
    lines = " ".join(shown.split())
    assert lines.count("1 runs did not reach MLflow (") == 1
    assert lines.endswith("`accelbench sync` delivers them.")
