import ast
from pathlib import Path

import pytest

from accelbench.engines.lightning import engine
from accelbench.isolation.hosts import Hosts
from accelbench.judging.row import summarise
from accelbench.schema.cell import KerasSettings
from accelbench.schema.record import Record
from accelbench.schema.vocab import XLA, Device, Engine, KerasBackend, Mode, Protocol, Status
from accelbench.schema.workload import ModelSpec
from fakes import make_cell, make_project, needs
from five_studies.published import Remedy, known_errors, known_errors_table
from marks import IGNORES_LIGHTNINGS_WARNINGS

ROOT = Path(__file__).resolve().parents[2]
FEW = {"warmup": 2, "steps": 12, "breakdown_s": 0.01}
MLP = ModelSpec(name="mlp", args={"widths": [8]})
ERRORS = known_errors()
PAGE = ROOT / "docs" / "how-a-benchmark-lies.md"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{error.study}: {error.done[:40]}")
def test_each_names_a_test_that_there_is(error):
    path, _, name = error.test.partition("::")
    functions = {
        node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)
    }
    assert name in functions


def test_every_study_has_its_own():
    assert {error.study for error in ERRORS} == {"000", "001", "002", "003", "004"}
    assert {error.here for error in ERRORS} == set(Remedy)


def test_the_docs_hold_the_same_table():
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    ours = known_errors_table()
    rows = [ours.headings, *([entry.text for entry in row] for row in ours.rows)]
    assert lines == ["| " + " | ".join(row) + " |" for row in rows]


def of_lightning(cell):
    return cell.engine == Engine.lightning and cell.device not in XLA


def tells_threads(cell):
    return cell.device not in XLA and not (cell.keras and cell.keras.backend == KerasBackend.jax)


def fetches_outside(cell):
    return cell.engine == Engine.lightning or cell.mode == Mode.infer or cell.keras.backend == KerasBackend.jax


def has_steps(cell):
    return cell.protocol != Protocol.fit


def any_cell(cell):
    return True


# A part of the sentence -> the columns that it names, and for which cells it says that they have a value.
NAMED = {
    "the number that ran is a column, empty for XLA and JAX": (["threads"], tells_threads),
    "Lightning's cells, but for XLA, name their busiest operators": (["busiest_operators"], of_lightning),
    "first_step_s is a column": (["first_step_s"], any_cell),
    "The share of the time that waits for batches is a column, empty where": (["data_wait_share"], fetches_outside),
    "The launch time is a column beside the latency": (["latency_p50_ms", "launch_p50_ms"], has_steps),
    "the batch per device is a column": (["batch_size_per_device"], any_cell),
    "The device that computed is read from the result": (["device_name", "num_devices"], any_cell),
}


def assert_claims_hold(cell, measured):
    values = {"identity": "0" * 8, "started_at": "2026-11-20T18:00:00+00:00", "wall_s": 1.0, "environment": {}}
    row = summarise(Record(cell=cell, status=Status.ok, measurement=measured, **values))
    for part, (columns, holds) in NAMED.items():
        assert any(part in error.how for error in ERRORS), part
        for column in columns:
            assert (row[column] is not None) == holds(cell), f"{column} of {cell.label}"
    assert (row["compile_s"] is not None) == bool(row["num_compiles"])


@IGNORES_LIGHTNINGS_WARNINGS
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("protocol", list(Protocol))
def test_every_cell_has_the_columns_that_the_sentences_name(tmp_path, protocol, mode):
    cell = make_cell(protocol=protocol, mode=mode, model=MLP, **FEW)
    assert_claims_hold(cell, engine.run(cell, make_project(tmp_path) / "data" / "mnist"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"device": Device.xla_cpu}, marks=needs("torch_xla")),
        pytest.param({"engine": Engine.keras, "keras": KerasSettings()}, marks=needs("tensorflow")),
        pytest.param({"engine": Engine.keras, "keras": KerasSettings(backend=KerasBackend.jax)}, marks=needs("jax")),
    ],
    ids=["xla_cpu", "tensorflow", "jax"],
)
def test_every_cell_of_other_engines_and_devices_has_them_too(tmp_path, changes):
    folder = make_project(tmp_path) / "data" / "mnist"
    with Hosts() as hosts:
        for protocol in (Protocol.steps, Protocol.fit):
            for mode in Mode:
                cell = make_cell(protocol=protocol, mode=mode, model=MLP, batch_size=16, **FEW, **changes)
                outcome = hosts.run(cell, folder)
                assert outcome.status == Status.ok, outcome.error
                assert_claims_hold(cell, outcome.measurement)
