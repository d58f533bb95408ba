import csv
import json

import pytest

from accelbench.cli import main
from accelbench.report.export import EFFICIENCY, cell_rows
from accelbench.schema.cell import Mode, Precision, Protocol, Scaling, Status
from accelbench.schema.measurement import Evaluation
from fakes import make_trained
from report.conftest import Maker

MAKER = Maker()
SIZES = [MAKER.ok(MAKER.cell(batch_size=size), rate) for size, rate in ((128, 1000.0), (256, 2000.0))]
SIZES.append(MAKER.record(MAKER.cell(batch_size=512), Status.oom))
TURNS = MAKER.interleaved({"fp32": 1000.0, "bf16_mixed": 2000.0})


@pytest.fixture
def exported(tmp_path, capsys):

    def exported(records, format, *flags):
        MAKER.suite(tmp_path, records)
        assert main(["export", str(tmp_path), "--format", format, *flags]) == 0
        return capsys.readouterr().out

    return exported


def test_bencher_gets_each_number_with_its_interval_in_a_file_too_and_github_a_list_of_speeds(exported, tmp_path):
    # As documented: https://bencher.dev/docs/reference/bencher-metric-format/
    text = exported(SIZES, "bencher")
    found = json.loads(text)
    assert len(found) == 2
    metrics = [metric for of_one in found.values() for metric in of_one.values()]
    assert all({"value"} <= set(each) <= {"value", "lower_value", "upper_value"} for each in metrics)
    speed = next(each for name, each in found.items() if name.endswith("b256-train"))["throughput"]
    assert speed["value"] == pytest.approx(2000, rel=0.05)
    assert speed["lower_value"] <= speed["value"] <= speed["upper_value"]
    assert exported(SIZES, "bencher", "--out", str(tmp_path / "out.json")).startswith("Written: ")
    assert text == (tmp_path / "out.json").read_text()
    found = json.loads(exported(SIZES, "github-action-benchmark"))
    # The fields of its documented example; `range` and `extra` are texts.
    assert [set(each) for each in found] == [{"name", "unit", "value", "range", "extra"}] * 2
    assert [round(each["value"], -2) for each in found] == [1000, 2000]
    assert {type(each[name]) for each in found for name in ("name", "unit", "range", "extra")} == {str}
    assert {each["extra"] for each in json.loads(exported(TURNS, "github-action-benchmark"))} == {"5 processes"}


def test_pytorch_gets_the_numbers_of_all_processes_of_a_cell_whose_name_depends_on_none(exported):
    found = json.loads(exported(TURNS, "pytorch"))
    throughput = {each["benchmark"]["dtype"]: each for each in found if each["metric"]["name"] == "throughput"}
    assert set(throughput) == {"fp32", "bf16_mixed"}
    record = throughput["fp32"]
    assert (record["benchmark"]["mode"], record["model"]["name"]) == ("training", "mlp")
    assert record["metric"]["benchmark_values"] == pytest.approx([1000.0] * 5, rel=0.05)
    later = [record for record in TURNS if record.cell.repeat > 1]
    of_all, of_later = (set(json.loads(exported(records, "bencher"))) for records in (TURNS, later))
    assert of_all == of_later
    assert not any("-r" in name for name in of_all)


def test_csv_and_json_have_every_cell_with_the_columns_of_the_report(exported):
    rows = list(csv.DictReader(exported(SIZES, "csv").splitlines()))
    found = json.loads(exported(SIZES, "json"))
    assert [row["status"] for row in rows] == ["ok", "ok", "oom"] == [row["status"] for row in found["cells"]]
    assert list(rows[0]) == list(found["cells"][0])
    assert len(found["processes"]) == 3
    tested = [Evaluation(num_samples=9, seconds=1, loss=0.1, accuracy=0.9 + seed / 100) for seed in range(3)]
    seeds = [MAKER.ok(MAKER.cell(protocol=Protocol.fit, seed=i), 1, evaluation=each) for i, each in enumerate(tested)]
    rows = json.loads(exported(seeds, "json"))["processes"]
    assert [(row["seed"], row["accuracy"]) for row in rows] == [(0, 0.9), (1, 0.91), (2, 0.92)]


@pytest.mark.parametrize(("last", "num"), [(20.0, 2), (None, 1)])  # None: it did not arrive
def test_a_time_to_a_target_is_that_of_all_seeds_or_of_none(exported, last, num):
    times = {Precision.fp32: [5.0, 6, 7, 8, 9, 10], Precision.bf16_mixed: [15.0, 16, 17, 18, 19, last]}
    trained = [make_trained(s, seed=i, precision=name) for name, of in times.items() for i, s in enumerate(of)]
    found = json.loads(exported(trained, "pytorch"))
    metrics = [each["metric"] for each in found if each["metric"]["name"] == "time-to-target-s"]
    assert [len(each["benchmark_values"]) for each in metrics] == [6] * num
    interval = metrics[0]["extra_info"]
    assert (interval["low"], interval["value"], interval["high"]) == (5.0, 8.0, 10.0)


GPU = {"device": "gpu", "batch_size": 64}
TWO = {**GPU, "devices": 2}
WEAK = {"device": "gpu", "scaling": Scaling.weak}
XLA = {"device": "xla_cpu"}


FULL = [(1000, GPU, 8), (800, {"device": "gpu", "batch_size": 32}, 8), (1800, TWO, 4)]
GROWING = [(1560, {**WEAK, "devices": 2, "batch_size": 64}, 4), (2400, {**WEAK, "devices": 4, "batch_size": 128}, 2)]
CHIPS = {"device": "tpu", "devices": 4, "xla_processes": True}
EFFICIENCIES = {  # (rate, what the cell is, threads of each process) of each cell
    "with the same cell on one device": ([*FULL, *GROWING], [0.9, 0.975, 0.75]),
    "parts of a CPU": ([(1000, {}, 2), (600, {"threads": 1}, 1), (900, {"devices": 2}, 1)], [0.75]),
    "XLA's devices with a process each": ([(1000, {"device": "tpu"}, None), (3600, CHIPS, None)], [0.9]),
    "devices of XLA share all cores": ([(1000, XLA, 2), (900, {**XLA, "devices": 2}, 2)], []),
}
for _other in ({"batch_size": 32}, {"seed": 1}, {"precision": "bf16"}, {"mode": Mode.train}):
    EFFICIENCIES[f"cells differ in {next(iter(_other))}"] = ([(1000, {**GPU, **_other}, 8), (1800, TWO, 4)], [])


@pytest.mark.parametrize(("cells", "shown"), EFFICIENCIES.values(), ids=EFFICIENCIES)
def test_cells_on_several_devices_are_compared(read, maker, cells, shown):
    made = [(maker.cell(**{"mode": Mode.infer, **settings}), rate, threads) for rate, settings, threads in cells]
    sweep = read([maker.ok(cell, rate, threads=threads) for cell, rate, threads in made])
    found = [row[EFFICIENCY] for row in cell_rows([sweep])]
    assert [efficiency for efficiency in found if efficiency is not None] == pytest.approx(shown)
