"""`accelbench export`: each format beside its documented example."""

import csv
import json

import pytest

from accelbench.cli import main
from accelbench.report.export import EFFICIENCY, cell_rows
from accelbench.schema.measurement import Evaluation
from accelbench.schema.vocab import Mode, Precision, Protocol, Scaling, Status
from fakes import make_trained
from report.conftest import Maker


@pytest.fixture
def sweeps(tmp_path):
    maker = Maker()
    ok = [maker.ok(maker.cell(), 1000.0), maker.ok(maker.cell(batch_size=256), 2000.0)]
    maker.suite(tmp_path, [*ok, maker.record(maker.cell(batch_size=512), Status.oom)])
    return tmp_path


def exported(folder, format, capsys):
    assert main(["export", str(folder), "--format", format]) == 0
    return capsys.readouterr().out


def test_bencher_gets_each_number_with_its_interval(sweeps, capsys):
    # As documented: https://bencher.dev/docs/reference/bencher-metric-format/
    found = json.loads(exported(sweeps, "bencher", capsys))
    assert len(found) == 2
    metrics = [metric for of_one in found.values() for metric in of_one.values()]
    assert all({"value"} <= set(each) <= {"value", "lower_value", "upper_value"} for each in metrics)
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
    speeds = json.loads(exported(tmp_path, "github-action-benchmark", capsys))
    assert {each["extra"] for each in speeds} == {"5 processes"}


def test_a_cell_keeps_its_name_whichever_of_its_processes_ran(tmp_path, capsys):
    maker = Maker()
    records = maker.interleaved({"fp32": 1000.0, "bf16_mixed": 2000.0})
    maker.suite(tmp_path / "all", records)
    maker.suite(tmp_path / "later", [record for record in records if record.cell.repeat > 1])
    of_all, of_later = (json.loads(exported(tmp_path / name, "bencher", capsys)) for name in ("all", "later"))
    assert {name.rpartition("/")[2] for name in of_all} == {name.rpartition("/")[2] for name in of_later}
    assert not any("-r" in name for name in of_all)


def test_csv_and_json_have_every_cell_with_the_columns_of_the_report(sweeps, capsys):
    rows = list(csv.DictReader(exported(sweeps, "csv", capsys).splitlines()))
    found = json.loads(exported(sweeps, "json", capsys))
    assert [row["status"] for row in rows] == ["ok", "ok", "oom"] == [row["status"] for row in found["cells"]]
    assert list(rows[0]) == list(found["cells"][0])
    assert len(found["processes"]) == 3


def test_a_file_has_what_is_printed(sweeps, tmp_path, capsys):
    assert main(["export", str(sweeps), "--format", "bencher", "--out", str(tmp_path / "out.json")]) == 0
    assert capsys.readouterr().out.startswith("Written: ")
    assert exported(sweeps, "bencher", capsys) == (tmp_path / "out.json").read_text()


def test_each_seed_has_its_accuracy(tmp_path, capsys):
    maker = Maker()
    seeds = [maker.cell(protocol=Protocol.fit, seed=seed) for seed in range(3)]
    tested = [Evaluation(num_samples=9, seconds=1, loss=0.1, accuracy=0.9 + seed / 100) for seed in range(3)]
    maker.suite(tmp_path, [maker.ok(cell, 100, evaluation=each) for cell, each in zip(seeds, tested, strict=True)])
    rows = json.loads(exported(tmp_path, "json", capsys))["processes"]
    assert [(row["seed"], row["accuracy"]) for row in rows] == [(0, 0.9), (1, 0.91), (2, 0.92)]


@pytest.mark.parametrize(("last", "num"), [(20.0, 2), (None, 1)])  # None: it did not arrive
def test_a_time_to_a_target_is_that_of_all_seeds_or_of_none(tmp_path, capsys, last, num):
    times = {Precision.fp32: [5.0, 6, 7, 8, 9, 10], Precision.bf16_mixed: [15.0, 16, 17, 18, 19, last]}
    trained = [make_trained(s, seed=i, precision=name) for name, of in times.items() for i, s in enumerate(of)]
    Maker().suite(tmp_path, trained)
    found = json.loads(exported(tmp_path, "pytorch", capsys))
    metrics = [each["metric"] for each in found if each["metric"]["name"] == "time-to-target-s"]
    assert [len(each["benchmark_values"]) for each in metrics] == [6] * num
    interval = metrics[0]["extra_info"]
    assert (interval["low"], interval["value"], interval["high"]) == (5.0, 8.0, 10.0)


GPU = {"device": "gpu", "batch_size": 64}
TWO = {**GPU, "devices": 2}
WEAK = {"device": "gpu", "scaling": Scaling.weak}
XLA = {"device": "xla_cpu"}


@pytest.mark.parametrize(
    ("cells", "shown"),
    [  # rate, what the cell is, threads of each process
        pytest.param(
            [
                *((1000, GPU, 8), (800, {"device": "gpu", "batch_size": 32}, 8), (1800, TWO, 4)),
                (1560, {**WEAK, "devices": 2, "batch_size": 64}, 4),
                (2400, {**WEAK, "devices": 4, "batch_size": 128}, 2),
            ],
            [0.9, 0.975, 0.75],
            id="with the same cell on one device",
        ),
        pytest.param(
            [(1000, {}, 2), (600, {"threads": 1}, 1), (900, {"devices": 2}, 1)],
            [0.75],
            id="parts of a CPU with one process of as many threads",
        ),
        pytest.param(
            [(1000, {"device": "tpu"}, None), (3600, {"device": "tpu", "devices": 4, "xla_processes": True}, None)],
            [0.9],
            id="XLA's devices with a process each with one",
        ),
        pytest.param([(1000, XLA, 2), (900, {**XLA, "devices": 2}, 2)], [], id="devices of XLA share all cores"),
        *(
            pytest.param([(1000, {**GPU, **other}, 8), (1800, TWO, 4)], [], id=f"cells differ in {next(iter(other))}")
            for other in ({"batch_size": 32}, {"seed": 1}, {"precision": "bf16"}, {"mode": Mode.train})
        ),
    ],
)
def test_cells_on_several_devices_are_compared(read, maker, cells, shown):
    made = [(maker.cell(**{"mode": Mode.infer, **settings}), rate, threads) for rate, settings, threads in cells]
    sweep = read([maker.ok(cell, rate, threads=threads) for cell, rate, threads in made])
    found = [row[EFFICIENCY] for row in cell_rows([sweep])]
    assert [efficiency for efficiency in found if efficiency is not None] == pytest.approx(shown)
