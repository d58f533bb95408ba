import re
import xml.etree.ElementTree as xml

import pytest
from PIL import Image

from accelbench.cli import main
from accelbench.schema.cell import Engine, Mode, Status
from fakes import make_trained
from report.conftest import Maker, served, working

INCH = 72  # points


MAKER = Maker()
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


PEAK = "percent of the device's peak operations per second"


@pytest.mark.parametrize(
    ("records", "name", "expected"),
    [
        (GAINING, "precision", {"bf16: mlp train, PyTorch fp32 b128", "1.7x", "speed over fp32"}),
        (GAINING, "engine", {"keras: cnn infer, PyTorch fp32 b128", "3.5x", "speed over PyTorch", "Keras"}),
        (GAINING, "device", {"xla_cpu: cnn infer, PyTorch fp32 b128", "0.20x", "speed over the CPU"}),
        (BUSY, "time", {"cnn-cpu-fp32-b128-infer", "10.0 ms", "data wait", "forward", "percent of a step"}),
        (BUSY, "limit", {"cnn-cpu-fp32-b128-infer", "50 %, compute", PEAK}),
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
    assert width / INCH == pytest.approx(4, abs=0.1)


@pytest.mark.parametrize(
    ("records", "flags", "message"),
    [
        (BATCHES, ["--out", "a.jpg"], "--out a.jpg: should end in .svg, .pdf or .png"),
        (BATCHES, ["--out", "taken/a.svg", "--question", "batch"], "taken/a.svg: not writable"),
        (BATCHES, ["--out", "a.svg", "--width", "1"], "--width 1: should be 3 to 20 inches"),
        (BATCHES, ["--out", "a.svg", "--question", "bach"], "no such chart. Choose from: --question batch"),
        (BATCHES[:1], ["--out", "a.svg"], "no such chart. Choose from: none"),
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
