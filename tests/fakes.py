"""Engines that fail in known ways, cells to run them, and records that they would leave."""

import errno
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

from accelbench.engines.registry import UNFINISHED, HostSpec
from accelbench.errors import UnsupportedError, UserError
from accelbench.schema import cell as schema
from accelbench.schema.cell import Cell, DataSpec, Device, Engine, Mode, ModelSpec, Precision, Protocol, Span, Status
from accelbench.schema.measurement import Block, Measurement, Quantile, Serving

TESTS = Path(__file__).parent
# Words of a cell that takes a moment.
QUICK = ["mode=infer", "device=cpu", "batch_size=8", "breakdown_s=0", "window.measure_s=0.05", "window.warmup_s=0.02"]
QUICK += ["window.latency_s=0.05", "window.block_s=0.01"]
SHORT = schema.Window(warmup_steps=2, warmup_s=0.02, measure_s=0.1, block_s=0.01, latency_s=0.05, latency_steps=20)


def needs(package: str):
    """Marks tests of an extra of accelbench, which `make test-wheel` does not install; `make setup` does."""
    import importlib.util

    import pytest  # here, since a cell's process loads this module too

    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"needs {package}")


def make_cell(fault: str = "none", **changes) -> Cell:
    """A small CPU cell; `fault` is what the faulty engine does with it."""
    model = ModelSpec(name="mlp", args={"fault": fault} if fault != "none" else {})
    settings = {"suite": "test", "model": model, "data": DataSpec(name="mnist"), "mode": Mode.infer, "batch_size": 32}
    is_module = changes.get("model", model).library == schema.Library.lightning
    engine = Engine.lightning if is_module else Engine.pytorch
    settings |= {"engine": engine, "device": Device.cpu, "precision": Precision.fp32, "timeout_s": 60.0}
    settings |= {"protocol": Protocol.window, "epochs": 1, "window": SHORT, "breakdown_s": 0.02}
    return Cell(**settings | changes)


def make_measurement(**changes) -> Measurement:
    """What a healthy CPU cell leaves."""
    values = {"device": "cpu", "device_name": "a CPU", "precision": "fp32", "num_devices": 1, "threads": 2}
    values |= {"num_params": 10, "num_train_samples": 100, "num_test_samples": 50, "build_s": 0.1}
    blocks = [Block(num_steps=10, num_samples=320, seconds=0.1)] * 8
    return Measurement(**values | {"blocks": blocks, "latency_s": [0.01] * 64} | changes)


def make_serving(cell: Cell, alone_s: float = 0.01, **changes) -> Serving:
    """What a server keeps that meets its limit up to 70 requests/s for each request of its largest batch."""
    rate, verdict = cell.server.rate, {}
    if cell.protocol == Protocol.offline:
        rate = 100.0 * cell.batch_size
    if cell.protocol == Protocol.server:  # as in an M/M/1 queue, up to its saturation
        verdict["verdict"] = schema.Verdict.passes if rate <= 70 * cell.batch_size else schema.Verdict.fails
        alone_s *= 150 * cell.batch_size / max(1.0, 100 * cell.batch_size - rate)
    latencies = [Quantile(percentile=p, seconds=alone_s, low=alone_s, high=alone_s) for p in (50, 90, 99)]
    num = max(1, round(rate * cell.server.duration_s))
    values = {"seed": int(cell.id, 16) % 2**32, "num_requests": num, "duration_s": cell.server.duration_s}
    values["num_missed"] = round(num * 0.01 ** min(99.0, cell.server.latency_ms / 1e3 / alone_s))
    values |= {"design_effect": 4.0, "offered_per_s": rate, "served_per_s": rate}
    values |= {"latencies": latencies, "batches": {"1": 1000}}
    return Serving(**{**values, **verdict, **changes})


def make_record(cell: Cell | None = None, status: Status = Status.ok, **changes):
    """A record of an ok cell with a measurement, or of another one with a reason."""
    from accelbench.schema.record import Record

    values = {"cell": cell or make_cell(), "identity": "0" * 64, "status": status, "environment": {}}
    values |= {"started_at": "2026-11-20T09:00:00.000+00:00", "wall_s": 1.0}
    values |= {"measurement": make_measurement()} if status == Status.ok else {"reason": "for [a] reason"}
    return Record(**values | changes)


def make_served(protocol: Protocol = Protocol.server, cell: Cell | None = None, **changes):
    """A record of a cell that served 1,000 requests; of `offline` it has blocks, and is a speed."""
    values = {"seed": 0, "num_requests": 1000, "duration_s": 20.0, "offered_per_s": 50.0, "served_per_s": 49.5}
    values |= {"batches": {"1": 400, "4": 150}, "num_padded": 50}
    values |= {"busy_share": 0.5, "queue_s": 0.002, "compute_s": 0.01}
    if protocol == Protocol.server:
        values |= {"num_missed": 3, "miss_share_low": 0.001, "miss_share_high": 0.008, "verdict": schema.Verdict.passes}
        values |= {"design_effect": 1.5, "late_p99_s": 0.0001}
        known = [(50.0, 0.012, 0.0118, 0.0125), (90.0, 0.021, 0.019, 0.024), (99.0, 0.0402, 0.033, None)]
        latencies = [Quantile(percentile=p, seconds=value, low=low, high=high) for p, value, low, high in known]
        values["latencies"] = [*latencies, Quantile(percentile=99.9, seconds=None)]
    serving = Serving(**{**values, **changes})
    blocks = [Block(num_steps=10, num_samples=320, seconds=0.1)] * 8 if protocol == Protocol.offline else []
    measured = make_measurement(blocks=blocks, latency_s=[], serving=serving)
    return make_record(cell or make_cell(protocol=protocol), measurement=measured)


def make_trained(seconds: float | None, epochs: int = 5, compile_s: float = 0.0, **changes):
    """A record of a cell that trained to an accuracy of .97, which it reached in `epochs`, `seconds` after its start.

    None: it did not in 10 epochs of 4 s. `changes` are of the record, of the cell, or `value`, its last accuracy,
    `planned_in` and `target`.
    """
    from accelbench.schema.measurement import Evaluated, Logged, TargetTraining

    own = {name: changes.pop(name) for name in ("started_at", "status") if name in changes}
    value, planned_in = changes.pop("value", 0.975 if seconds else 0.96), changes.pop("planned_in", None)
    target = schema.Target(accuracy=0.97, lower=False, **changes.pop("target", {}))
    cell = make_cell(mode=Mode.train, protocol=Protocol.target, epochs=10, target=target, **changes)
    second = (cell.batch_size + len(cell.precision)) % 60  # interleaved by seed
    own = {"started_at": f"2026-11-20T09:{cell.seed:02}:{second:02}.000+00:00", **own}
    if own.get("status", Status.ok) != Status.ok:
        return make_record(cell, **own)
    is_fixed = target.definition == schema.Definition.fixed
    last, every_s = (10, 4.0) if seconds is None else (epochs, (seconds - 1.5) / epochs)
    spans, evaluations = [(Span.start, 0.5), (Span.data, 1.0), (Span.build, 1.5)], []
    for i in range(1, last + 1 + (seconds is not None and not is_fixed)):
        begin_s, end_s = 1.5 + (i - 0.1) * every_s, 1.5 + i * every_s
        spans += [(Span.train, begin_s), (Span.evaluate, end_s)]
        if i >= last or not is_fixed:
            done = {"num_steps": 100 * i, "num_samples": 3200 * i, "epochs": i, "began_s": begin_s, "ended_s": end_s}
            evaluations.append(Evaluated(value=value if i >= last else min(0.9, 0.1 * i), **done))
    spans.append((Span.test, spans[-1][1] + 0.2))
    begins = [0.0, *(end_s for _, end_s in spans)]
    log = [Logged(span=span, began_s=at, ended_s=end_s) for at, (span, end_s) in zip(begins, spans, strict=False)]
    hit = next((i for i, each in enumerate(evaluations) if target.is_met(each.value)), None)
    known = {"num_validation": 100, "deterministic": True, "tested": 0.968, "stayed": None if is_fixed else True}
    known |= {"log": log, "compile_s": compile_s, "evaluations": evaluations, "hit": hit, "planned_in": planned_in}
    trained = TargetTraining(**known)
    return make_record(cell, measurement=make_measurement(blocks=[], latency_s=[], target=trained), **own)


def write_plan_of(folder: Path, records, suite: str = "nets", waiting=(), study: str | None = "001") -> None:
    from accelbench.schema.plan_file import PlanFile, WantedCell, write_plan

    cells = []
    for each in records:
        words = f"model={each.cell.model.name} precision={each.cell.precision}"
        cells.append(WantedCell(each.cell, each.name, each.label, words=words))
    cells += [WantedCell(cell, f"{cell.id}-{'9' * 8}", cell.label) for cell in waiting]
    write_plan(PlanFile(suite=suite, title="Networks", study=study, profile="quick", cells=cells), folder)


def write_sweep(folder: Path, *records, **plan) -> Path:
    """Writes records and a plan of them and of `waiting` cells, as a sweep leaves them in `folder`; returns it."""
    from accelbench.schema import record

    for each in records:
        record.write(each, folder)
    write_plan_of(folder, records, **plan)
    return folder


def make_options(**changes):
    """The options of a sweep into runs/test, without a tracker."""
    from accelbench.settings.config import Retry, SweepOptions  # Hydra takes long: a host imports this file too

    values = {"suite": "test", "title": "A test", "study": None, "profile": None, "tracking": "none"}
    return SweepOptions(**{**values, "out": "runs/test", "retry": Retry.none, **changes})


def assert_epochs_in_turn(measured: Measurement) -> None:
    """Each epoch and its evaluation are over before the next one begins, all within the steady state."""
    at, end = measured.steady_boot_s
    assert measured.epochs[0].began_boot_s == at
    for epoch in measured.epochs:
        assert at <= epoch.began_boot_s <= end - epoch.seconds
        at = epoch.began_boot_s + epoch.seconds + (epoch.evaluation.seconds if epoch.evaluation else 0.0)


def faulty_host(cell: Cell) -> HostSpec:
    return HostSpec("fakes", ("fakes",), python=cell.python)


def _raise(error: BaseException) -> None:
    raise error


# An exception of a library that has no message because of a mistake of its own.
Unprintable = type("Unprintable", (Exception,), {"__str__": lambda self: self.message})
# Signals, and exceptions with unusual types or messages.
ENDS = {
    "leave": lambda: sys.exit(3),
    "exit": lambda: (print("last words", flush=True), os._exit(3)),
    "last": lambda: time.sleep(0.1),
    "bad message": lambda: _raise(Unprintable()),
    "mistake": lambda: _raise(UserError("model.args: there is no such width")),
    "memory": lambda: _raise(
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory")
    ),
    "signal": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "signal beside a fork": lambda: os.kill(os.getpid(), signal.SIGSEGV) if os.fork() else time.sleep(30),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "half": lambda: (torch := importlib.import_module("torch")).linalg.cholesky(torch.eye(2, dtype=torch.float16)),
    "unsupported": lambda: _raise(UnsupportedError("not here\nbut elsewhere")),
}
# What the engine measures that differs from what a healthy one does.
MEASURED = {
    "tell peak": {"peak_host_bytes": 1_500_000_000},
    "of a fraction": {"latency_s": [Fraction(1, 10)]},
    "not finite": {"latency_s": [0.01, float("nan")]},
    "other device": {"device": "xla_cpu"},
}


def export(cell: Cell, data_folder: Path, folder: Path) -> None:
    """What the faulty engine exports: a megabyte, and a line in `exports`; it may be killed at its first one."""
    num, fault = len(list(data_folder.glob("exports.*"))), cell.model.args.get("fault")
    Path(data_folder, f"exports.{num}").touch()
    if fault == "die" and not num:
        Path(folder.parent, f"{UNFINISHED}first").mkdir()
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "no export":
        raise UnsupportedError("no exporter takes it")
    if fault == "die" and num == 1:
        assert not list(folder.parent.glob(f"{UNFINISHED}*")), "what the killed process left was not removed"
    folder.mkdir()
    Path(folder, "network").write_bytes(bytes(1 << 20))


def blocks_of(cell):
    return [Block(num_steps=10, num_samples=10 * cell.batch_size, seconds=cell.batch_size / 320)] * 8


def run(cell: Cell, data_folder: Path, weights=None, exported=None, requests=None) -> Measurement | None:
    """The faulty engine: does what the cell's fault says, on the rank that it names (`raise@1`) if it names one."""
    if exported is not None:
        return make_measurement(artifact_bytes=Path(exported, "network").stat().st_size)
    blocks = blocks_of(cell)
    fault, _, rank = cell.model.args.get("fault", "none").partition("@")
    if rank:
        Path(data_folder, f"{os.environ['LOCAL_RANK']}.pid").write_text(str(os.getpid()))
    if rank and rank != os.environ["LOCAL_RANK"]:
        # As a rank does that waits for another one: it fails a moment after it, or hangs with it.
        time.sleep(600 if fault == "hang" else 0.3)
        raise ConnectionError("connection closed by peer")
    if fault == "none" and os.environ.get("LOCAL_RANK", "0") != "0":
        return None
    if weights is not None:
        weights.write_text("trained")
    if fault == "raise":
        raise ValueError("a bad layer\nwith a second line")
    if fault in ENDS:
        ENDS[fault]()
    if fault.startswith("import "):
        importlib.import_module(fault.removeprefix("import "))
    if fault in MEASURED:
        return make_measurement(**MEASURED[fault])
    if fault == "tell processes":
        import psutil

        host = psutil.Process().parent().parent()
        pids = [process.pid for process in (host, *host.children(recursive=True))]
        Path(data_folder, "processes.json").write_text(json.dumps(pids))
    if fault == "hang":
        # With a child, as a data worker would be: it must go too.
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(data_folder, "child.pid").write_text(str(child.pid))
        time.sleep(600)
    if fault == "daemon":  # a process of another session, whose parent has ended
        marker = Path(data_folder, "daemon.pid")
        leave = f"setsid sh -c 'echo $$ > {marker}; sleep 5' & until [ -s {marker} ]; do sleep 0.01; done"
        subprocess.run(leave, shell=True)
    if fault == "stop host":
        forkserver = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(forkserver.rpartition(")")[2].split()[1]), signal.SIGSTOP)
        time.sleep(600)
    if fault == "tell environment":
        Path(data_folder, "environment.json").write_text(json.dumps({**os.environ, "sys.prefix": sys.prefix}))
    if fault == "lose data":
        Path(data_folder, "manifest.json").unlink()
    if fault.startswith(("change ", "touch ")):
        what, _, name = fault.partition(" ")
        path = Path(data_folder).parents[1] / name
        path.write_bytes((path.read_bytes() if path.exists() else b"") + (b"# changed" if what == "change" else b""))
    if fault.startswith("batch decides"):  # or it fails, if the batch is the one that is named
        if fault.endswith(f" {cell.batch_size}"):
            raise ValueError("a bad batch")
        num = (5 if cell.precision == Precision.bf16 else 10) * cell.batch_size
        blocks = [Block(num_steps=10, num_samples=num, seconds=0.1)] * 8
        latency_s, precision = [cell.batch_size / 1e3] * 64, cell.precision.value
        return make_measurement(blocks=blocks, latency_s=latency_s, precision=precision)
    if fault.startswith("serve"):
        num_late = {"serve late": 2, "serve later": 99}.get(fault, 0) if cell.protocol == Protocol.server else 0
        defects = ["requests were issued .72 ms late"] if cell.repeat < num_late else []
        return make_measurement(serving=make_serving(cell), defects=defects, blocks=blocks)
    if fault == "allocate":
        block = bytearray(256_000_000)
        block[::4096] = b"x" * len(block[::4096])
        Path(data_folder, f"{os.environ.get('LOCAL_RANK', '0')}.of{cell.devices}").touch()
        deadline = time.monotonic() + 20
        while len([*Path(data_folder).glob(f"*.of{cell.devices}")]) < cell.devices:  # so that all have it at once
            assert time.monotonic() < deadline, "a rank is missing"
            time.sleep(0.01)
        time.sleep(0.6)
    return make_measurement(num_devices=cell.devices, blocks=blocks)


def is_gone(pid: int) -> bool:
    """Whether the process ends within 10 s; one that only its parent has not waited for has ended."""
    import psutil

    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with suppress(psutil.NoSuchProcess):  # asking first whether it exists would leave a moment in which it ends
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.05)
                continue
        return True
    return False


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Writes texts by the names of their files, which may begin with folders."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def make_project(root: Path) -> Path:
    """A project in `root`: the repository's conf/ and params.yaml, and 160 random images that pass for MNIST."""
    # Here, since cells are forked from a process that has loaded this module, and need none of them.

    import numpy as np

    from accelbench.data.arrays import Arrays, Obtained, save_split
    from accelbench.data.prepare import describe

    shutil.copytree(TESTS.parent / "conf", root / "conf")
    # The extension of the report stays in the repository.
    lines = (TESTS.parent / "params.yaml").read_text().splitlines(keepends=True)
    (root / "params.yaml").write_text("".join(each for each in lines if not each.startswith("report_extension:")))
    images = np.random.default_rng(0).integers(0, 256, (160, 28, 28), dtype=np.uint8)
    labels = (np.arange(160) % 10).astype(np.uint8)
    folder = root / "data" / "mnist"
    folder.mkdir(parents=True)
    save_split(folder, "train", Arrays(images[:96], labels[:96]))
    save_split(folder, "test", Arrays(images[96:], labels[96:]))
    describe(Obtained(classes=tuple("0123456789"), source="random pixels"), "mnist", folder)
    return root


def make_environment(folder: Path, **versions: str) -> Path:
    """An environment with all packages of this one, but for those given, which have another version; empty without."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name, version in versions.items():
        (site / f"{name}-{version}.dist-info").mkdir()
        (site / f"{name}-{version}.dist-info/METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        (site / name).mkdir()
        (site / name / "__init__.py").write_text(f"__version__ = '{version}'\n")
    if versions:
        (site / "first.pth").write_text(sysconfig.get_path("purelib"))
    return folder


def copy_package(root: Path, name: str, old: str, new: str) -> None:
    """Copies the package and its bytecode to root/src; one of its files, which has `old` once, gets another text."""
    import accelbench

    source = Path(accelbench.__path__[0]).parent
    # *.pyc.<number> is bytecode that another process writes: the file has its name for an instant.
    shutil.copytree(source, root / "src", ignore=shutil.ignore_patterns("*.egg-info", "*.pyc.*"))
    path = root / "src" / "accelbench" / name
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def make_ceilings(**changes):
    """Ceilings of a CPU that no cell reaches."""
    from accelbench.schema.ceilings import Ceilings

    values = {"device": "cpu", "device_name": "a CPU", "threads": 2, "launch_s": 1e-6}
    values |= {"flops_per_s": dict.fromkeys(Precision, 1e15), "memory_bytes_per_s": 1e15}
    values |= {"probed": [word.value for word in Precision]}
    return Ceilings(**values | changes)


def give_ceilings(root: Path, **changes) -> None:
    """Writes ceilings of this machine's CPU: sweeps need not probe it, which takes seconds."""
    from accelbench.grid.fingerprint import fingerprint
    from accelbench.schema.ceilings import keep_ceilings

    keep_ceilings(root, fingerprint(Engine.pytorch), "cpu", make_ceilings(**changes))


def refuse_listing(monkeypatch, folder: Path) -> None:
    """Nobody, root neither, may list `folder` any more."""
    real = os.scandir

    def scandir(path="."):
        if not isinstance(path, int) and Path(path) == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
