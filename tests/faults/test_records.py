"""Records, plans and compare.json with 10,000 mutations each: refused with a clear message, or published truly."""

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import strategies as st
from rich.console import Console

from accelbench.answers.ranking import answers
from accelbench.compare import answer
from accelbench.grid.estimate import read_evidence
from accelbench.judging.row import MEASURED, summarise
from accelbench.project import CEILINGS as CEILINGS_FILE
from accelbench.project import COMPARISON, PLAN
from accelbench.report import read as sweeps
from accelbench.report.read import Sweep
from accelbench.report.tables import best, outcomes
from accelbench.schema import plan_file, record
from accelbench.schema.ceilings import read_ceilings, write_ceilings
from accelbench.schema.cell import Cell, KerasSettings
from accelbench.schema.measurement import Block, Breakdown, Data, Epoch, Evaluation, Operator, SystemSeries, Work
from accelbench.schema.record import Record, Row
from accelbench.schema.vocab import Device, Engine, Library, Mode, Phase, Precision, Protocol, Status, Stop
from accelbench.schema.workload import DataSpec, ModelSpec
from accelbench.sweep.interleaved import load_comparison
from fakes import make_ceilings, make_cell, make_measurement
from faults.mutations import HOSTILE_TARGET, mutated_text, mutations
from faults.watch import Reader

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]

OLDER = Path(__file__).parents[1] / "schema" / "older"
RATES = {"fp32": 4e11, "bf16": 8e11}
CEILINGS = make_ceilings(flops_per_s=RATES, how=dict.fromkeys(RATES, "matmul"), memory_bytes_per_s=2e10, probed=[])
DATA = Data(name="mnist", digest="d" * 64, source="random pixels", stand_in=True)
SYSTEM = SystemSeries(
    started_boot_s=100.0,
    t_s=[0.0, 1.0, 2.0, 3.0],
    values={
        "host_memory_mb": [100.5, None, 101.0, 102.0],
        "other_cpu_utilization_percent": [1.0, 2.0, 30.0, 4.0],
        "cpu_energy_j": [10.0, 40.0, 70.0, 100.0],
        "cpu_quota_throttled_s": [0.0, 0.0, 0.5, 0.6],
        "cpu_thermal_throttles": [0, 0, 1, 1],
    },
    peak_host_bytes=123_456_789,
)
WINDOW = make_measurement(
    compile_s=0.5,
    num_compiles=1,
    fallbacks=["aten::x"],
    first_step_s=0.02,
    warmup_s=[0.02, 0.01],
    warmup_total_s=0.03,
    num_warmup_steps=2,
    settled=True,
    stop=Stop.precise,
    blocks=[Block(num_steps=10, num_samples=320, seconds=0.1 + place / 100) for place in range(8)],
    latency_s=[0.01 + place / 1e4 for place in range(8)],
    launch_s=[0.001] * 8,
    data_s=[0.001] * 8,
    copy_in_s=[0.001] * 8,
    copy_out_s=[0.001] * 8,
    num_steady_samples=2560,
    steady_boot_s=(100.5, 102.5),
    clock_drift=1e-5,
    breakdown=Breakdown(phases_s={phase: [0.002] * 8 for phase in Phase}, undisturbed_s=[0.01] * 8),
    operators=[Operator(name="aten::mm", num_calls=3, share=0.9)],
    work=Work(flops=10**6, bytes=10**5, num_operators=12, uncounted=["aten::y"]),
    loss=0.2,
    output_error=1e-7,
    peak_host_bytes=10**8,
    warnings=["a warning"],
)
EPOCHS = make_measurement(
    blocks=[],
    latency_s=[],
    steady_boot_s=(100.0, 103.0),
    epochs=[
        Epoch(
            seconds=1.0,
            num_samples=96,
            began_boot_s=100.0 + start,
            loss=0.3,
            accuracy=0.9,
            evaluation=Evaluation(num_samples=64, seconds=0.1, loss=0.2, accuracy=0.95),
        )
        for start in (0.0, 1.0, 2.0)
    ],
    evaluation=Evaluation(num_samples=64, seconds=0.1, loss=0.2, accuracy=0.95),
)
OWN = ModelSpec(name="own", library=Library.custom, network=HOSTILE_TARGET, args={"width": 64})


def make_record(cell: Cell, status: Status = Status.ok, place: int = 0, **changes) -> Record:
    values = {
        "cell": cell,
        "identity": "0123456789abcdef" * 4,
        "status": status,
        "started_at": f"2026-11-20T09:00:{place:02}.000+00:00",
        "wall_s": 1.25,
        "environment": {
            "machine": {"cpu_name": "a CPU", "num_cores": 2, "num_threads": 4, "gpus": [], "tpus": []},
            "versions": {"torch": "2.9.0"},
            "variables": {},
            "code": "c0de" * 16,
            "git": {"revision": "ab" * 20, "branch": "main", "dirty": False},
            "idle_w": {"cpu_energy_j": 5.0},
            "ceilings": CEILINGS.to_json(),
            "probe_code": "c0de",
        },
        "data": DATA,
        "measurement": WINDOW,
        "system": SYSTEM,
        "sweep_id": "2026-11-20_09-00-00-test",
        **({} if status == Status.ok else {"reason": "for a reason", "error": "Traceback\nlast line"}),
    }
    return Record(**{**values, **changes})


RECORDS = [
    make_record(make_cell(model=OWN)),
    make_record(make_cell(mode=Mode.train, protocol=Protocol.fit, epochs=3), measurement=EPOCHS),
    make_record(make_cell(engine=Engine.keras, keras=KerasSettings(), device=Device.gpu, devices=2)),
    make_record(make_cell(data=DataSpec(name="random")), Status.failed, measurement=None),
]


def numbers_of(row: Row) -> dict[str, float]:
    """The numbers of a row by column; each must be a finite number that fits into a float."""
    words = {"stopped", "bound", "busiest_operators", "energy_provenance", "time_provenance", "device_name", "warnings"}
    words |= {"allocator_library", "disturbed"}
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
    tables = [best.by_criterion(told), best.what_to_use(told), outcomes.reasons([found])]
    tables.append(outcomes.failures([found]))
    texts = [entry.text for table in tables if table for row in table.rows for entry in row]
    "\n".join([found.title, *texts]).encode()


def planned(folder: Path, text: str) -> Path:
    """Writes a record and a plan of its cell alone into `folder`; returns the record's path."""
    values = json.loads(text)
    made = record.from_values(values)
    wanted = [plan_file.WantedCell(made.cell, made.name)]
    plan_file.write_plan(
        plan_file.PlanFile(suite="test", title="a title", study="001", profile="quick", cells=wanted), folder
    )
    path = folder / f"{made.name}.json"
    path.write_text(text)
    return path


def read_and_publish(path: Path) -> None:
    found = record.read(path)
    sweep = sweeps.read(path.parent)
    assert [each.name for each in sweep.records] in ([found.name], [])  # not if its name is another than its file's
    publish(sweep)
    read_evidence(path.parent.parent, found.environment.get("machine", {}), {found.name.partition("-")[0]})
    record.write(found, path.parent)


def test_records(tmp_path):
    texts = [json.dumps(made.to_json()) for made in RECORDS]
    texts += [path.read_text() for path in sorted(OLDER.glob("*.json"))]
    paths = [planned(tmp_path / str(number), text) for number, text in enumerate(texts)]
    for path in paths:
        read_and_publish(path)

    def of(mutation):
        path = paths[mutation[0] % len(paths)]
        path.write_bytes(mutated_text(texts, mutation))
        return lambda: read_and_publish(path)

    Reader("records", tmp_path).try_all(mutations, of)


def write(path: Path, texts: list[str], mutation) -> None:
    path.write_bytes(mutated_text(texts, mutation))


def outside(folder: Path, name: str) -> None:
    """A record beside `folder`, which nothing in it may lead to."""
    (folder.parent / f"{name}.json").write_text(json.dumps(RECORDS[0].to_json()))


def test_plans(tmp_path):
    folder = tmp_path / "results"
    for made in RECORDS[:2]:
        record.write(made, folder)
    outside(folder, "outside")
    wanted = [plan_file.WantedCell(made.cell, made.name) for made in RECORDS[:3]]
    plan = plan_file.PlanFile(suite="test", title="a title", study="001", profile="quick", cells=wanted)
    plan_file.write_plan(plan, folder)
    path = folder / PLAN
    texts = [path.read_text()]

    def read() -> None:
        publish(sweeps.read(folder))  # without a readable plan, those of all records
        plan_file.read_plan(folder)

    read()

    Reader("plans", folder).try_all(mutations, lambda mutation: write(path, texts, mutation) or read)


def test_comparisons(tmp_path):
    folder = tmp_path / "results"
    names: list[list[str]] = [[], []]
    for place in range(4):
        made = make_record(make_cell(batch_size=32 * (1 + place % 2), repeat=place), place=place)
        record.write(made, folder)
        names[place % 2].append(made.name)
    outside(folder, "outside")
    path = folder / COMPARISON
    sides = [{"name": f"batch_size={size}", "records": of_side} for size, of_side in zip((32, 64), names, strict=True)]
    texts = [json.dumps({"seed": 7, "sides": sides})]
    terms = answer.Terms(anyway=True)

    def compare() -> None:
        shown = io.StringIO()
        assert answer.answer(*load_comparison(folder), terms, Console(file=shown)) in (0, 1)
        shown.getvalue().encode()

    path.write_text(texts[0])
    compare()

    Reader("comparisons", folder).try_all(mutations, lambda mutation: write(path, texts, mutation) or compare)


def test_ceilings(tmp_path):
    environment = RECORDS[0].environment
    write_ceilings(tmp_path, environment, "cpu", CEILINGS)
    write_ceilings(tmp_path, environment, "gpu", replace(CEILINGS, device="gpu", device_to_host_bytes_per_s=1e10))
    path = tmp_path / CEILINGS_FILE
    texts = [path.read_text()]
    reader = Reader("ceilings", tmp_path)
    num_known = 0

    def read(*, writes: bool) -> None:
        nonlocal num_known
        found = read_ceilings(tmp_path, environment)
        num_known += len(found)
        for ceilings in found.values():
            for known in (ceilings, ceilings.of_devices(8), ceilings.joined(CEILINGS), CEILINGS.joined(ceilings)):
                rates = [rate for word in Precision if (rate := known.ceiling_of(word)) is not None]
                rates += [known.memory_bytes_per_s, known.host_to_device_bytes_per_s or 1]
                rates += [known.device_to_host_bytes_per_s or 1]
                assert 0 <= known.launch_s < math.inf
                assert all(isinstance(rate, int | float) and 0 < rate < math.inf for rate in rates), rates
            probed = replace(RECORDS[0], environment={**environment, "ceilings": ceilings.to_json()})
            row = numbers_of(summarise(probed))
            assert row.get("mfu", 1) > 0
        if writes:
            write_ceilings(tmp_path, environment, "gpu", CEILINGS)
            assert read_ceilings(tmp_path, environment)["gpu"] == CEILINGS

    read(writes=True)

    def of(given):
        mutation, number = given
        write(path, texts, mutation)
        return lambda: read(writes=number == 0)  # which takes long

    reader.try_all(st.tuples(mutations, st.integers(0, 9)), of, refuses=False)
    print(f"ceilings: {num_known:,} of {2 * reader.outcomes['read']:,} known")
    assert 0.1 < num_known / reader.outcomes["read"] / 2 < 0.9
