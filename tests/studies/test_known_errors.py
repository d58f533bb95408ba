import ast
from pathlib import Path

import pytest

from accelbench.engines.lightning import engine
from accelbench.judging.row import summarise
from accelbench.schema.vocab import Mode, Protocol
from accelbench.schema.workload import ModelSpec
from fakes import make_cell, make_project, make_record
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


@IGNORES_LIGHTNINGS_WARNINGS
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("protocol", list(Protocol))
def test_every_cell_has_the_columns_that_the_sentences_name(tmp_path, protocol, mode):
    cell = make_cell(protocol=protocol, mode=mode, model=MLP, **FEW)
    measured = engine.run(cell, make_project(tmp_path) / "data" / "mnist")
    # A part of the sentence -> the columns that it names, and whether it says that they have a value.
    named = {
        "the number that ran is a column, empty for XLA and JAX": (["threads"], True),
        "Lightning's windows, but for XLA, name their busiest": (*(["busiest_operators"], protocol != Protocol.fit),),
        "first_step_s is a column": (["first_step_s"], True),
        "The share of the time that waits for batches is a column, empty where": (["data_wait_share"], True),
        "The launch time is a column beside": (["latency_p50_ms", "launch_p50_ms"], protocol != Protocol.fit),
        "the batch per device is a column": (["batch_size_per_device"], True),
        "The device that computed is read from the result": (["device_name", "num_devices"], True),
    }
    row = summarise(make_record(cell, measurement=measured))
    for part, (columns, holds) in named.items():
        assert any(part in error.how for error in ERRORS), part
        for column in columns:
            assert (row[column] is not None) == holds, f"{column} of {cell.label}"
    assert (row["compile_s"] is not None) == bool(row["num_compiles"])
