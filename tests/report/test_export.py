"""`accelbench export`: each format against its own schema, or its documented example."""

import csv
import json

import fastjsonschema
import pytest

from accelbench.cli import main
from accelbench.commands.export import FORMATS
from accelbench.report import export
from accelbench.schema.vocab import Status
from report.conftest import Maker

# As documented: https://bencher.dev/docs/reference/bencher-metric-format/
NUMBER = {"type": "number"}
BENCHER = {
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "patternProperties": {
                ".+": {
                    "type": "object",
                    "properties": {"value": NUMBER, "lower_value": NUMBER, "upper_value": NUMBER},
                    "required": ["value"],
                }
            },
        }
    },
}


@pytest.fixture
def sweeps(tmp_path):
    maker = Maker()
    cells = [maker.cell(), maker.cell(batch_size=256)]
    records = [
        maker.ok(cells[0], 1000.0),
        maker.ok(cells[1], 2000.0),
        maker.record(maker.cell(batch_size=512), Status.oom),
    ]
    maker.suite(tmp_path, records)
    return tmp_path


def exported(folder, format, capsys):
    assert main(["export", str(folder), "--format", format]) == 0
    return capsys.readouterr().out


def test_bencher_gets_each_number_with_its_interval(sweeps, capsys):
    found = json.loads(exported(sweeps, "bencher", capsys))
    fastjsonschema.validate(BENCHER, found)
    assert len(found) == 2
    of_cell = next(each for name, each in found.items() if name.endswith("b256-train"))
    assert of_cell["throughput"]["value"] == pytest.approx(2000, rel=0.05)
    assert (
        of_cell["throughput"]["lower_value"] <= of_cell["throughput"]["value"] <= of_cell["throughput"]["upper_value"]
    )


def test_github_gets_a_list_of_speeds(sweeps, capsys):
    found = json.loads(exported(sweeps, "github-action-benchmark", capsys))
    # The fields of its documented example; `range` and `extra` are texts.
    assert [set(each) for each in found] == [{"name", "unit", "value", "range", "extra"}] * 2
    assert [round(each["value"], -2) for each in found] == [1000, 2000]
    assert {type(each[name]) for each in found for name in ("name", "unit", "range", "extra")} == {str}


def test_pytorch_gets_a_record_for_each_number_with_those_of_all_processes(tmp_path, capsys):
    maker = Maker()
    maker.suite(tmp_path, maker.interleaved({"fp32": 1000.0, "bf16_mixed": 2000.0}))
    found = json.loads(exported(tmp_path, "pytorch", capsys))
    throughput = {each["benchmark"]["dtype"]: each for each in found if each["metric"]["name"] == "throughput"}
    assert set(throughput) == {"fp32", "bf16_mixed"}
    record = throughput["fp32"]
    assert (record["benchmark"]["mode"], record["model"]["name"]) == ("training", "mlp")
    assert record["metric"]["benchmark_values"] == pytest.approx([1000.0] * 5, rel=0.05)


def test_mlperf_gets_log_lines(sweeps, capsys):
    # Each line as mlperf_logging's parser reads it: the mark, and JSON with these keys.
    for line in exported(sweeps, "mlperf", capsys).splitlines():
        mark, _, text = line.partition(" ")
        event = json.loads(text)
        assert (mark, event["key"], event["event_type"]) == (":::MLLOG", "tracked_stats", "POINT_IN_TIME")
        assert set(event) == {"namespace", "time_ms", "event_type", "key", "value", "metadata"}
        assert event["value"]["throughput"] > 900


def test_csv_and_json_have_every_cell_with_the_columns_of_the_report(sweeps, capsys):
    rows = list(csv.DictReader(exported(sweeps, "csv", capsys).splitlines()))
    found = json.loads(exported(sweeps, "json", capsys))
    assert [row["status"] for row in rows] == ["ok", "ok", "oom"] == [row["status"] for row in found["cells"]]
    assert list(rows[0]) == list(found["cells"][0])
    assert len(found["processes"]) == 3


def test_a_file_is_written_and_it_is_said_what_it_lacks(sweeps, tmp_path, capsys):
    assert main(["export", str(sweeps), "--format", "bencher", "--out", str(tmp_path / "out.json")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("2 cells written to ")
    assert "Not written: 1 cell without a published number" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [(["runs", "--format", "benchr"], "bencher"), (["--format", "csv"], "--out"), (["runs"], "--format")],
)
def test_a_mistake_is_explained(words, said, capsys):
    assert main(["export", *words]) == 2
    assert said in capsys.readouterr().err


def test_the_command_names_all_formats():
    assert tuple(export.FORMATS) == FORMATS
