import dataclasses
import itertools

import pytest

from accelbench.report import build
from accelbench.report.read import read as read_sweep
from accelbench.report.read import read_all
from accelbench.schema.cell import (
    STEP_MODES,
    UNEXPECTED,
    DataSpec,
    Device,
    Mode,
    ModelSpec,
    Pipeline,
    Precision,
    Protocol,
    Server,
    Status,
    Verdict,
)
from accelbench.schema.measurement import Block, Breakdown, Data, Epoch, Evaluation, Quantile, SystemSeries, Work
from accelbench.schema.serialize import plain
from fakes import make_ceilings, make_cell, make_measurement, make_record, make_serving, write_sweep

MNIST = Data(name="mnist", digest="d" * 64, source="the original files", stand_in=False)
STAND_IN = Data(name="mnist", digest="e" * 64, source="a drawn digit for each class", stand_in=True)
MACHINE = {"cpu_name": "Example CPU @ 2.0 GHz", "num_cores": 2, "num_threads": 4, "gpus": []}
ENVIRONMENT = {"machine": MACHINE, "versions": {"python": "3.12.1", "torch": "2.9.0"}, "code": "abc123"}


class Maker:
    stand_in = STAND_IN

    def cell(self, model="mlp", device="cpu", precision="fp32", **changes):
        values = {"suite": "nets", "mode": Mode.train, "batch_size": 128, "epochs": 5, "model": ModelSpec(name=model)}
        return make_cell(**values | {"device": Device(device), "precision": Precision(precision)} | changes)

    def ok(self, cell, rate, data=MNIST, **changes):
        step = cell.batch_size / rate
        values = {
            "blocks": [Block(num_steps=10, num_samples=cell.batch_size * 10, seconds=10 * step * k) for k in SPREAD],
            "latency_s": [step * (1 + i / 1000) for i in range(700)],
        }
        if cell.protocol == Protocol.fit:
            evaluation = Evaluation(num_samples=10_000, seconds=1.0, loss=0.0812, accuracy=0.9765)
            epochs = [Epoch(seconds=60_000 / rate, num_samples=60_000) for _ in range(cell.epochs)]
            values = {"blocks": [], "latency_s": [], "epochs": epochs, "evaluation": evaluation}
        values |= {"num_params": 1_195_018, "num_train_samples": 60_000, "num_test_samples": 10_000}
        values |= {"device": cell.device, "precision": cell.precision, "num_devices": cell.devices}
        return self.record(cell, Status.ok, measurement=make_measurement(**values | changes), data=data)

    def record(self, cell, status, **changes):
        system = SystemSeries(t_s=[0.0], values={"host_memory_mb": [812.0]}, peak_host_bytes=900_000_000)
        values = {"identity": cell.id * 5, "started_at": "2026-11-20T18:00:00+00:00", "environment": ENVIRONMENT}
        return make_record(cell, status, **values | {"system": system, "reason": None, "wall_s": 2.5} | changes)

    def at(self, record, minute):
        return dataclasses.replace(record, started_at=f"2026-11-20T18:{minute:02}:00+00:00")

    def beside_others(self, record):
        """The record of a process beside which other processes used most of a core."""
        busy = SystemSeries(started_boot_s=0.0, t_s=[1.0], values={"other_cpu_utilization_percent": [80.0]})
        steady = dataclasses.replace(record.measurement, steady_boot_s=(0.5, 1.5))
        return dataclasses.replace(record, system=busy, measurement=steady)

    def interleaved(self, rates, num=5, growth=0.0, **measured):
        """Processes of each precision in turns, each faster by `growth` than the one before it."""
        return [
            self.at(self.ok(self.cell(precision=word, repeat=i), rate * (1 + growth * i), **measured), 2 * i + side)
            for i in range(num)
            for side, (word, rate) in enumerate(rates.items())
        ]

    def suite(self, results, records, waiting=(), study="001"):
        """Writes records and a plan that names them and `waiting`; returns the suite's folder."""
        name = (records[0].cell if records else waiting[0]).suite
        return write_sweep(results / name, *records, suite=name, waiting=waiting, study=study)

    def report(self, root, *records):
        """The folder of the report on root/results, to which these records are added."""
        if records:
            self.suite(root / "results", list(records))
        return build.build(read_all(root / "results"), root / "results", root / "report").parent

    def everything(self):
        """Several models, devices, precisions and batches, all statuses, stand-in data, two cells not run."""
        records = []
        axes = STEP_MODES, ("mlp", "cnn"), ("cpu", "xla_cpu"), ("fp32", "bf16_mixed"), (32, 128)
        for i, (mode, *words, size) in enumerate(itertools.product(*axes)):
            cell = self.cell(*words, mode=mode, batch_size=size)
            records.append(self.ok(cell, 12_000 * 0.9**i * size / 32, data=STAND_IN))
        fit = self.cell("mlp", protocol=Protocol.fit, batch_size=256)
        records.append(self.ok(fit, 21_000, data=STAND_IN, warnings=["the loader waited"]))
        cells = [self.cell(model, "gpu", mode=mode) for model in ("mlp", "cnn") for mode in STEP_MODES]
        records += [self.record(cell, Status.skipped, reason="no NVIDIA GPU: no libnvidia-ml.so") for cell in cells]
        reasons = {status: f"it is {status}" for status in UNEXPECTED} | {Status.failed: BAD_REASON}
        for i, (status, reason) in enumerate(sorted(reasons.items())):
            cell = self.cell("lstm", batch_size=2**i)
            records.append(self.record(cell, status, reason=reason, error="Traceback ...\nValueError: <b>x</b> |\n"))
        return records, [self.cell("rnn"), self.cell("rnn", batch_size=32)]


BAD_REASON = '<script>alert("x")</script> | a *bad* reason'
RANDOM = DataSpec(name="random", pipeline=Pipeline.host)
SPREAD = (0.97, 0.98, 0.99, 1.0, 1.01, 1.02, 1.03)


def inferring(maker, name, device="cpu", precision="fp32", rate=100.0, *, batch_size=16, side=224, **changes):
    cell = maker.cell(name, device, precision, mode=Mode.infer, batch_size=batch_size, data=RANDOM, **changes)
    model = dataclasses.replace(cell.model, input_shape=(3, side, side))
    return maker.ok(dataclasses.replace(cell, model=model), rate, data=None)


def texts(table, *first):
    """The rows that begin with `first`, by heading."""
    rows = [dict(zip(table.headings, (entry.text for entry in row), strict=True)) for row in table.rows]
    return [row for row in rows if tuple(row.values())[: len(first)] == first]


PHASES = {"data_wait": [1e-3] * 4, "forward": [6e-3] * 4, "backward": [2e-3] * 4, "framework": [1e-3] * 4}


def working(maker, model, precision="fp32", mode=Mode.infer, **changes):
    changes = {
        "work": Work(flops=128 * 10**8, bytes=128 * 10**6, num_operators=9),
        "breakdown": Breakdown(phases_s=PHASES, undisturbed_s=[9.9e-3] * 4),
        **changes,
    }
    made = maker.ok(maker.cell(model, precision=precision, mode=mode), 500.0, **changes)
    rates = {"fp32": 1e11, "bf16": 4e11}
    ceilings = make_ceilings(flops_per_s=rates, memory_bytes_per_s=1e10)
    return dataclasses.replace(made, environment={**made.environment, "ceilings": plain(ceilings)})


def serving(maker, rate, p99_ms, verdict, *, model, max_batch=8, seed=9):
    """A record of requests at a rate, whose p99 may be at most 50 ms, with misses as in an M/M/1 queue."""
    settings = {"mode": Mode.infer, "protocol": Protocol.server, "batch_size": max_batch, "seed": seed}
    cell, num = maker.cell(model, server=Server(rate=rate), **settings), round(20 * rate)
    parts = {50.0: 0.25, 90.0: 0.5, 99.0: 1.0, 99.9: 2.0}
    known = {"num_missed": round(0.01 ** (50 / p99_ms) * num), "design_effect": 1.0, "verdict": verdict}
    known["latencies"] = [Quantile(percentile=p, seconds=part * p99_ms / 1e3) for p, part in parts.items()]
    served = make_serving(cell, seed=seed, duration_s=20.0, num_requests=num, busy_share=0.625, **known)
    return maker.ok(cell, rate, data=None, serving=served, blocks=[], latency_s=[])


def served(maker, model="cnn"):
    """Records of two settings of a network: a search's probes."""
    passes, unknown, fails = Verdict.passes, Verdict.unknown, Verdict.fails
    fast = [(100, 20, passes), (200, 52, unknown), (200, 40, passes), (220, 49, unknown), (240, 900, fails)]
    records = [serving(maker, *each, model=model, seed=seed) for seed, each in enumerate(fast)]
    return records + [serving(maker, *each, model=model, max_batch=1) for each in ((50, 30, passes), (100, 80, fails))]


@pytest.fixture(scope="session")
def maker():
    return Maker()


@pytest.fixture
def read(tmp_path, maker):
    return lambda records, waiting=(), **plan: read_sweep(maker.suite(tmp_path, records, waiting, **plan))


@pytest.fixture(scope="session")
def report(tmp_path_factory, maker):
    root = tmp_path_factory.mktemp("project")
    maker.suite(root / "results", *maker.everything())
    return maker.report(root)


@pytest.fixture
def show(browser, report):
    """Opens a report's page anew, the sample's by default, at a fragment, with a width and a colour scheme."""
    from browsing import open_page  # selenium is not installed everywhere

    def show(fragment="", width=1400, scheme="light", folder=report):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        opened = open_page(browser, folder / "index.html", fragment)
        opened.execute_script("grow(Infinity)")  # the table begins with its first 20 rows
        return opened

    return show
