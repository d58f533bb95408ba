import dataclasses

import pytest

from accelbench.report import page, read
from accelbench.report.pictures import studies, study_summary
from accelbench.report.tables import batch_scaling, study_steps, study_times
from accelbench.schema.cell import DataSpec
from accelbench.schema.measurement import Epoch, Evaluation
from accelbench.schema.vocab import Mode, Pipeline, Protocol, Status

HEAD = ("title", "")
RANDOM = DataSpec(name="random", pipeline=Pipeline.host)


def inferring(maker, name, device="cpu", precision="fp32", rate=100.0, *, batch_size=16, side=224, **changes):
    cell = maker.cell(name, device, precision, mode=Mode.infer, batch_size=batch_size, data=RANDOM, **changes)
    cell = dataclasses.replace(cell, model=dataclasses.replace(cell.model, input_shape=(3, side, side)))
    return maker.ok(cell, rate, data=None)


def texts(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_bars_are_grouped_by_family_and_batch(tmp_path, maker):
    records = [
        inferring(maker, model, precision=precision, batch_size=batch)
        for model in ("resnet18", "vgg11", "resnet50", "nasnetalarge")
        for precision in ("fp32", "bf16")
        for batch in (16, 32)
    ]
    cells = read.read(maker.suite(tmp_path, records, study="000")).cells
    figure = studies.families(cells, lambda planned: planned.row["samples_per_s"], "images/s", HEAD)
    assert [axes.get_title() for axes in figure.axes] == ["resnet", "vgg", "others"] * 2
    assert [axes.get_ylabel() for axes in figure.axes[::3]] == ["batch 16: images/s", "batch 32: images/s"]
    assert [len(axes.patches) for axes in figure.axes] == [4, 2, 2] * 2
    assert texts(figure) == ["cpu bf16", "cpu fp32"]
    assert studies.families(cells, lambda planned: None, "x", HEAD) is None


def test_curves_are_of_training_and_test_and_need_two_epochs(tmp_path, maker):
    def epochs(num):
        tested = Evaluation(num_samples=9, seconds=1, loss=0.2, accuracy=0.8)
        return [Epoch(seconds=1, num_samples=9, loss=0.3, accuracy=0.7, evaluation=tested)] * num

    def curves(num, folder):
        cell = maker.cell(protocol=Protocol.fit, epochs=num)
        found = read.read(maker.suite(tmp_path / folder, [maker.ok(cell, 9, epochs=epochs(num))]))
        return studies.curves(found, HEAD)

    assert curves(1, "one") is None
    figure = curves(3, "three")
    accuracy, loss = figure.axes
    assert sorted(list(line.get_ydata()) for line in accuracy.lines) == [[70.0] * 3, [80.0] * 3]
    assert sorted(list(line.get_ydata()) for line in loss.lines) == [[0.2] * 3, [0.3] * 3]
    assert texts(figure) == ["cpu fp32", "training", "test"]


@pytest.fixture
def scaled(tmp_path, maker):
    records = [
        inferring(maker, "scaling_cnn_small", device, rate=rate * gain, batch_size=batch)
        for device, gain in (("cpu", 1), ("gpu", 5))
        for batch, rate in ((1, 100), (8, 290), (16, 300))
    ]
    return read.read(maker.suite(tmp_path, records, study="003"))


def test_the_summary_has_devices_best_batches_and_conclusions_on_one_page(scaled):
    figure = study_summary.summary_page(scaled, HEAD)
    figure.draw_without_rendering()
    devices, best, told = figure.axes
    shown = [[cell.get_text().get_text() for cell in axes.tables[0].get_celld().values()] for axes in (devices, best)]
    assert {"device", "cpu", "gpu"} <= set(shown[0])
    assert {"best batch", "16", "1,500"} <= set(shown[1])
    assert told.texts[0].get_text().count("•") == 2
    for axes in (devices, best):
        for cell in axes.tables[0].get_celld().values():  # nothing is cut
            assert cell.get_text().get_window_extent().width <= cell.get_window_extent().width
    assert study_summary.summary_page(dataclasses.replace(scaled, cells=[]), HEAD) is None


def test_the_dashboard_shows_boxes_bars_lines_and_speedups(scaled):
    figure = studies.dashboard(scaled.cells, HEAD)
    boxes, bars, lines, gains = figure.axes
    assert len(boxes.patches) == 6
    assert [round(patch.get_height()) for patch in bars.patches] == [100, 290, 300, 500, 1450, 1500]
    assert [list(line.get_xdata()) for line in lines.lines] == [[1, 8, 16]] * 2
    assert list(gains.lines[0].get_ydata()) == pytest.approx([5, 5, 5])
    assert studies.dashboard([], HEAD) is None


@pytest.mark.parametrize("other", [{"side": 64}, {"threads": 1}, {"seed": 1}, {"protocol": Protocol.steps}])
def test_pictures_have_no_speedup_between_cells_that_differ_in_more_than_the_device(tmp_path, maker, other):
    def gains(**changes):
        records = [
            inferring(maker, "resnet18", "cpu", rate=10),
            inferring(maker, "resnet18", "gpu", rate=50, **changes),
        ]
        found = read.read(maker.suite(tmp_path / str(len(changes)), records, study="000"))
        gain = [study_times.gain_over_cpu(planned, found.cells, "samples_per_s") for planned in found.cells]
        return gain, len(studies.dashboard(found.cells, HEAD).axes[3].lines)

    assert gains() == ([None, pytest.approx(5)], 2)  # the curve, and a line at 1
    assert gains(**other) == ([None, None], 0)


def test_of_cells_at_one_place_one_is_shown(tmp_path, maker):
    records = [
        inferring(maker, "resnet18", rate=rate, protocol=Protocol.steps, steps=steps)
        for rate, steps in ((10, 512), (20, 1024))
    ]
    found = read.read(maker.suite(tmp_path, records, study="000"))
    figure = studies.families(found.cells, lambda planned: planned.row["samples_per_s"], "images/s", HEAD)
    assert [patch.get_height() for patch in figure.axes[0].patches] == [10]


def test_the_best_batch_is_that_of_the_highest_throughput_free_and_within_limits(scaled):
    table = batch_scaling.best_batch(scaled)
    found = {row[1].text: dict(zip(table.headings, (entry.text for entry in row), strict=True)) for row in table.rows}
    # A batch of 8 at 290 samples/s takes 27.6 ms, one of 16 at 300 takes 53.3; within 10 ms there is the 1 alone.
    assert found["cpu"]["best batch"] == "16"
    assert found["cpu"]["best batch within 10 ms"] == "–"
    assert found["cpu"]["best batch within 50 ms"] == "8"
    assert found["gpu"]["best batch within 10 ms"] == "8"
    sentence = batch_scaling.conclusions(scaled)[0]
    assert sentence.startswith(
        "scaling_cnn_small on cpu in fp32: batch 16 is fastest, 300 samples/s, 3.00 times batch 1"
    )
    assert sentence.endswith("batch 8 comes within 5 % of it.")


def test_published_times_stand_beside_ours_of_the_same_settings(tmp_path, maker):
    gpu = inferring(maker, "resnet50", "gpu", "tf32", batch_size=32)
    records = [
        inferring(maker, "resnet50", rate=50, batch_size=32),
        inferring(maker, "resnet50", precision="bf16", rate=99, batch_size=32),
        maker.record(gpu.cell, Status.skipped, reason="no GPU"),
        inferring(maker, "vgg16", rate=50, batch_size=32, side=64),  # of another input nothing was published
    ]
    table = study_steps.table(read.read(maker.suite(tmp_path, records, study="000")), "time_per_image")
    rows = [[entry.text for entry in row] for row in table.rows]
    head = ["resnet50", "cpu", "fp32", "32"]
    assert [row[:4] for row in rows[:2]] == [head, head]  # the study's two CPUs
    assert [float(row[4]) for row in rows[:2]] == [27.0, 27.0]  # the median of its steps over 32
    assert [row[6] for row in rows] == ["98.47", "103.0", "–", "0.4906", "–"]
    assert rows[3][4:6] == ["–", "skipped"]
    assert rows[4][0] == "vgg16"


@pytest.mark.parametrize("name", ["000", "002", "003", "004", None])
def test_every_studys_page_composes(tmp_path, maker, name):
    records = [inferring(maker, "resnet18", batch_size=batch) for batch in (16, 32)]
    found = read.read(maker.suite(tmp_path, records, study=name))
    section = page.compose([found]).sections[0]
    assert section.caveats or name is None
    drawn = {picture.path.split("/")[1].rpartition("_nets")[0] for picture in section.pictures}
    assert drawn == {
        "000": {"families"},
        "003": {"dashboard_0", "summary"},
        None: {"throughput", "latency"},
    }.get(name, set())
