"""Records, plans and params.yaml with 10,000 mutations each.

They are refused with a clear message, or published truly.
"""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from accelbench.answers.sentences import answers
from accelbench.grid.estimate import read_evidence
from accelbench.judging.costs import with_costs
from accelbench.judging.row import MEASURED, summarise
from accelbench.project import PARAMS, PLAN
from accelbench.report import read as sweeps
from accelbench.report.read import Sweep
from accelbench.report.tables import best, outcomes
from accelbench.schema import plan_file, record
from accelbench.schema.cell import Cell, KerasSettings
from accelbench.schema.measurement import Breakdown, Data, Epoch, Evaluation, Operator, SystemSeries, Work
from accelbench.schema.record import Record, Row
from accelbench.schema.vocab import Device, Engine, Library, Mode, Phase, Protocol, Status, Stop
from accelbench.schema.workload import DataSpec, ModelSpec
from accelbench.settings import params, suites
from fakes import make_ceilings, make_cell, make_measurement, write_plan_of, write_sweep
from fakes import make_record as make_bare_record
from faults.mutations import HOSTILE_TARGET, change_bytes, change_node, mutated_text, raw, to_text
from faults.watch import try_all

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]

RATES = {"fp32": 4e11, "bf16": 8e11}
CEILINGS = make_ceilings(flops_per_s=RATES, how=dict.fromkeys(RATES, "matmul"), memory_bytes_per_s=2e10, probed=[])
SYSTEM = SystemSeries(
    started_boot_s=100.0,
    t_s=[0.0, 1.0, 2.0, 3.0],
    values={
        "host_memory_mb": [100.5, None, 101.0, 102.0],
        "other_cpu_utilization_percent": [1.0, 2.0, 30.0, 4.0],
        "cpu_energy_j": [10.0, 40.0, 70.0, 100.0],
        "cpu_quota_throttled_s": [0.0, 0.0, 0.5, 0.6],
    },
    peak_host_bytes=123_456_789,
)
TIMES = ("launch_s", "data_s", "copy_in_s", "copy_out_s")
WARMED_UP = {"compile_s": 0.5, "num_compiles": 1, "first_step_s": 0.02, "warmup_s": [0.02, 0.01], "num_warmup_steps": 2}
STEADY = {"num_steady_samples": 2560, "steady_boot_s": (100.5, 102.5), "output_error": 1e-7, "warnings": ["a warning"]}
WINDOW = make_measurement(
    **WARMED_UP | STEADY | {name: [0.001] * 8 for name in TIMES},
    stop=Stop.precise,
    breakdown=Breakdown(phases_s={phase: [0.002] * 8 for phase in Phase}, undisturbed_s=[0.01] * 8),
    operators=[Operator(name="aten::mm", num_calls=3, share=0.9)],
    work=Work(flops=10**6, bytes=10**5, num_operators=12, uncounted=["aten::y"]),
)
TESTED = Evaluation(num_samples=64, seconds=0.1, loss=0.2, accuracy=0.95)
EPOCH = Epoch(seconds=1.0, num_samples=96, began_boot_s=100.0, loss=0.3, accuracy=0.9, evaluation=TESTED)
THREE = [replace(EPOCH, began_boot_s=at) for at in (100.0, 101.0, 102.0)]
EPOCHS = make_measurement(blocks=[], latency_s=[], steady_boot_s=(100.0, 103.0), epochs=THREE, evaluation=TESTED)
OWN = ModelSpec(name="own", library=Library.custom, network=HOSTILE_TARGET, args={"width": 64})


ENVIRONMENT = {
    "machine": {"cpu_name": "a CPU", "num_cores": 2, "num_threads": 4, "gpus": [], "tpus": []},
    "git": {"revision": "ab" * 20, "branch": "main", "dirty": False},
    **{"versions": {"torch": "2.9.0"}, "variables": {}, "code": "c0de", "idle_w": {"cpu_energy_j": 5.0}},
    "ceilings": CEILINGS.to_json(),
}


def make_record(cell: Cell, status: Status = Status.ok, **changes) -> Record:
    values = {
        "environment": ENVIRONMENT,
        "data": Data(name="mnist", digest="d" * 64, source="random pixels", stand_in=True),
        "measurement": WINDOW,
        "system": SYSTEM,
        "error": None if status == Status.ok else "Traceback\nlast line",
    }
    return make_bare_record(cell, status, **{**values, **changes})


RECORDS = [
    make_record(make_cell(model=OWN)),
    make_record(make_cell(mode=Mode.train, protocol=Protocol.fit, epochs=3), measurement=EPOCHS),
    make_record(make_cell(engine=Engine.keras, keras=KerasSettings(), device=Device.gpu, devices=2)),
    make_record(make_cell(data=DataSpec(name="random")), Status.failed, measurement=None),
]


def numbers_of(row: Row) -> dict[str, float]:
    """The numbers of a row by column; each must be a finite number that fits into a float."""
    words = {"stopped", "bound", "busiest_operators", "energy_provenance", "time_provenance", "device_name", "warnings"}
    words |= {"allocator_library", "disturbed", "tips", "notes"}
    for column in set(MEASURED) - words:
        assert row[column] is None or isinstance(row[column], int | float), f"{column}: {row[column]!r:.100}"
    numbers = {column: float(value) for column, value in row.items() if isinstance(value, int | float)}
    assert all(map(math.isfinite, numbers.values())), numbers
    return numbers


POSITIVE = [column for column in MEASURED if column.startswith(("samples_per_s", "latency_p"))]
NOT_NEGATIVE = ["launch_p50_ms", "data_wait_ms", "copy_in_ms", "copy_out_ms", "compile_s", "wall_s", "time_s"]


def publish(found: Sweep) -> None:
    """Makes what a report and `accelbench best` show first; nothing in it may be impossible."""
    for reported in found.cells:
        if reported.record is not None:
            summarise(reported.record)
        numbers = numbers_of(reported.row)
        assert all(numbers.get(column, 1) > 0 for column in POSITIVE), numbers
        assert all(numbers.get(column, 0) >= 0 for column in NOT_NEGATIVE), numbers
    told = answers(found.cells)
    tables = [best.by_criterion(told), best.what_to_use(told), outcomes.reasons([found]), outcomes.failures([found])]
    texts = [entry.text for table in tables if table for row in table.rows for entry in row]
    "\n".join([found.title, *texts]).encode()


def read_and_publish(path: Path) -> None:
    found = record.read(path)
    sweep = sweeps.read(path.parent)
    assert [each.name for each in sweep.records] in ([found.name], [])  # not if its name is another than its file's
    publish(sweep)
    read_evidence(path.parent.parent, found.environment.get("machine", {}))
    record.write(found, path.parent)


def test_records(tmp_path):
    texts = [json.dumps(made.to_json()) for made in RECORDS]
    paths = [tmp_path / str(number) / f"{made.name}.json" for number, made in enumerate(RECORDS)]
    for path, made in zip(paths, RECORDS, strict=True):
        write_sweep(path.parent, made)
        read_and_publish(path)

    def of(dice):
        path = dice.choice(paths)
        path.write_bytes(mutated_text(texts, dice))
        return lambda: read_and_publish(path)

    try_all(tmp_path, of)


def test_plans(tmp_path):
    folder = tmp_path / "results"
    for made in RECORDS[:2]:
        record.write(made, folder)
    write_plan_of(folder, RECORDS[:3])

    def read() -> None:
        publish(sweeps.read(folder))  # without a readable plan, those of all records
        plan_file.read_plan(folder)

    texts = [(folder / PLAN).read_text()]
    read()
    try_all(folder, lambda dice: ((folder / PLAN).write_bytes(mutated_text(texts, dice)), read)[1])


PARAMS_VALUES = {
    "profile": "quick",
    "costs": {"gpu": {"price_per_hour": 2.5, "power_w": 350}},
    "data": {"mnist": {"source": "auto"}},
    "suites": {"mine": {"data": "mnist", "batch_size": {"quick": [1, 32], "full": 64}, "exclude": []}},
}
# What YAML reads as something else than JSON.
YAML = [
    *(".nan", ".inf", "0x7fffffffffffffff", "1_000", "1:30:00", "2026-11-20", "2026-11-20T09:00:00Z", "yes", "~", "<<"),
    *("!!python/object/apply:os.system [touch outside]", "!!python/name:hostile.Network", "!!binary aGk=", "!!set {a}"),
    *("!mine x", "${costs}", "${oc.env:HOME}", "${suites.mine}", "${", "???", "*none", "&a [*a]", "&a {a: *a}", "- -"),
    *("{? [a]: b}", "{1: 2}", "{null: 1}", "{true: 1}", "%TAG", "'", "|\n x", "? x"),
    "[&a [x, x], &b [*a, *a, *a, *a], &c [*b, *b, *b, *b], &d [*c, *c, *c, *c], [*d, *d, *d, *d]]",
]


def test_params(tmp_path):
    row = summarise(RECORDS[0])

    def read() -> None:
        settings = params.load(tmp_path)
        for device in (costs := params.costs(tmp_path)):
            numbers_of(with_costs({**row, "device": device.value}, costs))
        for name in map(str, settings.get("data") or {}):
            assert isinstance(params.data_settings(tmp_path, name), dict)
        for name in map(str, settings.get("suites") or {}):
            if (chosen := suites.Suite.chosen({"suite": name}, settings)) is not None:
                chosen.overrides({"suite": name}, is_sweep=True)

    def of(dice):
        document = change_node(PARAMS_VALUES, dice)
        if isinstance(document, dict) and dice.random() < 0.3:
            part = dice.choice([part for part in document.values() if isinstance(part, dict)] or [document])
            part[dice.choice([*part, "another"])] = raw(dice.choice(YAML))
        text = to_text(document).encode()
        (tmp_path / PARAMS).write_bytes(change_bytes(text, dice) if dice.random() < 0.25 else text)
        return read

    try_all(tmp_path, of)
