import csv
import json
import re
import xml.etree.ElementTree as xml

import pytest
from PIL import Image

from accelbench.cli import main
from accelbench.report.export import EFFICIENCY, cell_rows
from accelbench.schema.cell import Engine, Mode, Precision, Protocol, Scaling, Status
from accelbench.schema.measurement import Evaluation
from fakes import make_trained
from report.conftest import Maker, served, working

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
FULL = [(1000, GPU, 8), (800, {"device": "gpu", "batch_size": 32}, 8), (1800, TWO, 4)]
GROWING = [(1560, {**WEAK, "devices": 2, "batch_size": 64}, 4), (2400, {**WEAK, "devices": 4, "batch_size": 128}, 2)]
CHIPS = {"device": "tpu", "devices": 4, "xla_processes": True}
XLA = {"device": "xla_cpu"}
EFFICIENCIES = {  # (rate, what the cell is, threads of each process) of each cell
    "with the same cell on one device": ([*FULL, *GROWING], [0.9, 0.975, 0.75]),
    "parts of a CPU": ([(1000, {}, 2), (600, {"threads": 1}, 1), (900, {"devices": 2}, 1)], [0.75]),
    "XLA's devices with a process each": ([(1000, {"device": "tpu"}, None), (3600, CHIPS, None)], [0.9]),
    "devices of XLA share all cores": ([(1000, XLA, 2), (900, {**XLA, "devices": 2}, 2)], []),
    "cells differ in another batch": ([(1000, {**GPU, "batch_size": 32}, 8), (1800, TWO, 4)], []),
    "cells differ in another setting": ([(1000, {**GPU, "seed": 1}, 8), (1800, TWO, 4)], []),
}


@pytest.mark.parametrize(("cells", "shown"), EFFICIENCIES.values(), ids=EFFICIENCIES)
def test_cells_on_several_devices_are_compared(read, maker, cells, shown):
    made = [(maker.cell(**{"mode": Mode.infer, **settings}), rate, threads) for rate, settings, threads in cells]
    sweep = read([maker.ok(cell, rate, threads=threads) for cell, rate, threads in made])
    found = [row[EFFICIENCY] for row in cell_rows([sweep])]
    assert [efficiency for efficiency in found if efficiency is not None] == pytest.approx(shown)


# Two jobs that gain, one by another engine and one by another precision, and one that can't tell.
GAINING = [
    MAKER.ok(MAKER.cell("cnn", mode=Mode.infer), 100),
    MAKER.ok(MAKER.cell("cnn", engine=Engine.keras, mode=Mode.infer), 350),
    MAKER.ok(MAKER.cell("cnn", "xla_cpu", mode=Mode.infer), 20),
    *(MAKER.ok(MAKER.cell("mlp", precision=word), rate) for word, rate in (("fp32", 100), ("bf16", 170))),
    *(MAKER.ok(MAKER.cell("rnn", precision=word), rate) for word, rate in (("fp32", 100), ("bf16", 101))),
]
BUSY = [working(MAKER, model) for model in ("mlp", "cnn")]
SERVED = [*served(MAKER), *served(MAKER, "mlp")]
TRAINED = [make_trained(seconds, seed=seed) for seed, seconds in enumerate([11.4, 12.9, None])]
BATCHES = [MAKER.ok(MAKER.cell(batch_size=size), 100 * size) for size in (1, 8)]
SKIPPED = [MAKER.record(MAKER.cell(), Status.skipped, reason="no GPU")]


@pytest.fixture
def drawn(here, maker):
    """From records and flags to the words of the picture, from its top left to its end; it is an SVG."""

    def drawn(records, *flags):
        maker.suite(here / "runs", records)
        assert main(["figure", "runs", "--out", "new/figure.svg", *flags]) == 0
        texts = xml.parse(here / "new/figure.svg").iter("{http://www.w3.org/2000/svg}text")
        return ["".join(each.itertext()).strip() for each in texts]

    return drawn


def test_by_default_it_has_a_row_for_each_job_with_the_ratio_that_best_prints(drawn, maker, capsys):
    found = drawn(GAINING)
    assert capsys.readouterr().out == "Figure: new/figure.svg\n"
    names = ["cnn infer", "mlp train", "rnn train"]
    assert [word for word in found if word in names] == names  # the largest gain first
    ends = ["3.5x Keras fp32 b128", "1.7x PyTorch bf16 b128", "? PyTorch bf16 b128"]
    assert [word for word in found if word in ends] == ends
    assert "times as fast as PyTorch fp32 on CPU at the same batch" in found
    meanings = {"PyTorch", "Keras", "PyTorch on XLA", "likely", "? can't tell", "both 95 % intervals", "1/4", "2x"}
    assert meanings <= set(found)
    assert "! in doubt" not in found
    assert main(["best", "runs"]) == 0
    assert re.search(r"cnn infer.* 3\.50 times as fast", " ".join(capsys.readouterr().out.split()))
    # Marks of one engine and precision are told apart.
    cells = [maker.cell(), *(maker.cell(threads=num) for num in (1, 2)), maker.cell(precision="bf16")]
    found = drawn([maker.ok(cell, rate) for cell, rate in zip(cells, (100, 210, 200, 400), strict=True)])
    assert {"fp32 1 thread", "fp32 2 threads", "bf16"} <= set(found)


@pytest.mark.parametrize(
    ("records", "name", "expected"),
    [
        (GAINING, "precision", {"bf16: mlp train, PyTorch fp32 b128", "1.7x", "speed over fp32"}),
        (GAINING, "engine", {"keras: cnn infer, PyTorch fp32 b128", "3.5x", "speed over PyTorch", "Keras"}),
        (GAINING, "device", {"xla_cpu: cnn infer, PyTorch fp32 b128", "0.20x", "speed over the CPU"}),
        (BUSY, "time", {"cnn-cpu-fp32-b128-infer", "10.0 ms", "data wait", "forward", "percent of a step"}),
        (BUSY, "limit", {"50 %, compute", "percent of the device's peak operations per second"}),
        (SERVED, "requests", {"p99 latency (ms)", "sure pass", "PyTorch fp32, one at a time"}),
        (TRAINED, "target", {"percent of the seeds at the target", "PyTorch fp32 b32"}),
    ],
)
def test_a_question_has_a_row_for_each_pair_or_cell_or_a_curve_for_each_setting(drawn, records, name, expected):
    found = drawn(records, "--question", name)
    assert expected <= set(found), found
    if name == "requests":  # a panel for each workload
        assert found.count("p99 at most 50 ms") == found.count("requests/s offered") == 2


def test_the_files_name_decides_the_format_and_equal_records_make_equal_files(here, maker):
    maker.suite(here / "runs", GAINING)
    for kind in ("svg", "PDF", "png"):
        (here / f"one.{kind}").write_text("mine")  # which is replaced
        for name in ("one", "two"):
            assert main(["figure", "runs", "--out", f"{name}.{kind}", "--width", "4"]) == 0
        assert (here / f"one.{kind}").read_bytes() == (here / f"two.{kind}").read_bytes()
    pdf = (here / "one.PDF").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"/Type3" not in pdf  # fonts that printers refuse
    assert b"/FontFile2" in pdf
    with Image.open(here / "one.png") as picture:
        assert picture.format == "PNG"
        assert picture.width / 300 == pytest.approx(4, abs=0.1)
    width = float(re.search(r'width="([\d.]+)pt"', (here / "one.svg").read_text())[1])
    assert width / 72 == pytest.approx(4, abs=0.1)


@pytest.mark.parametrize(
    ("records", "flags", "message"),
    [
        (BATCHES, ["--out", "a.jpg"], "--out a.jpg: should end in .svg, .pdf or .png"),
        (BATCHES, ["--out", "taken/a.svg", "--question", "batch"], "taken/a.svg: not writable"),
        (BATCHES, ["--out", "a.svg", "--width", "1"], "--width 1: should be 3 to 20 inches"),
        (BATCHES, ["--out", "a.svg", "--question", "bach"], "no such chart. Choose from: --question batch"),
        (SKIPPED, ["--out", "a.svg"], "runs: these records have no such chart. Choose from: none"),
    ],
)
def test_what_can_not_be_drawn_is_an_error_that_names_the_flag_or_what_there_is(
    here, maker, capsys, records, flags, message
):
    maker.suite(here / "runs", records)
    (here / "taken").touch()
    assert main(["figure", "runs", *flags]) == 2
    assert message in capsys.readouterr().err
    assert not list(here.glob("a.*"))
    assert main(["figure", "runs/none", "--out", "a.svg"]) == 2
