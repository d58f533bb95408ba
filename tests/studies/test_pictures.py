import pytest

from accelbench.schema.cell import KerasSettings, Options
from accelbench.schema.measurement import Block, Epoch, Evaluation
from accelbench.schema.vocab import Device, Engine, Mode, Protocol
from five_studies import comparison, pictures, sections
from report.conftest import inferring


def speed(reported):
    return reported.number("samples_per_s")


def texts(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_bars_are_grouped_by_family_and_batch(read, maker):
    records = [
        inferring(maker, model, precision=precision, batch_size=batch)
        for model in ("resnet18", "vgg11", "resnet50", "nasnetalarge")
        for precision in ("fp32", "bf16")
        for batch in (16, 32)
    ]
    cells = read(records, study="000").cells
    figure = pictures.families(cells, speed, "images/s", "title", "")
    assert [axes.get_title() for axes in figure.axes] == ["resnet", "vgg", "others"] * 2
    assert [axes.get_ylabel() for axes in figure.axes[::3]] == ["batch 16: images/s", "batch 32: images/s"]
    assert [len(axes.patches) for axes in figure.axes] == [4, 2, 2] * 2
    assert texts(figure) == ["cpu bf16", "cpu fp32", "has warnings: see its row"]
    assert pictures.families(cells, lambda reported: None, "x", "title", "") is None


def test_curves_are_of_training_and_test_and_need_two_epochs(read, maker):
    def epochs(num):
        tested = Evaluation(num_samples=9, seconds=1, loss=0.2, accuracy=0.8)
        return [Epoch(seconds=1, num_samples=9, loss=0.3, accuracy=0.7, evaluation=tested)] * num

    def curves(num):
        cell = maker.cell(protocol=Protocol.fit, epochs=num)
        found = read([maker.ok(cell, 9, epochs=epochs(num))])
        return pictures.curves(found, "title", "")

    assert curves(1) is None
    figure = curves(3)
    accuracy, loss = figure.axes
    assert sorted(list(line.get_ydata()) for line in accuracy.lines) == [[70.0] * 3, [80.0] * 3]
    assert sorted(list(line.get_ydata()) for line in loss.lines) == [[0.2] * 3, [0.3] * 3]
    assert texts(figure) == ["cpu fp32", "training", "test"]


def test_the_dashboard_shows_latency_throughput_and_speedup_by_batch(scaled):
    figure = pictures.dashboard(scaled.cells, "title", "")
    latency, throughput, gains = figure.axes
    assert [list(line.get_xdata()) for line in latency.lines] == [[1, 8, 16]] * 2
    assert [list(line.get_ydata()) for line in throughput.lines] == [[100, 290, 300], [500, 1450, 1500]]
    assert list(gains.lines[0].get_ydata()) == pytest.approx([5, 5, 5])
    assert pictures.dashboard([], "title", "") is None


@pytest.mark.parametrize("other", [{}, {"side": 64}, {"threads": 1}, {"seed": 1}, {"protocol": Protocol.steps}])
def test_pictures_have_no_speedup_between_cells_that_differ_in_more_than_the_device(read, maker, other):
    records = [inferring(maker, "resnet18", "cpu", rate=10), inferring(maker, "resnet18", "gpu", rate=50, **other)]
    cells = read(records, study="000").cells
    gains = [comparison.ratio(cell, comparison.equal_on(Device.cpu, cell, cells)) for cell in cells]
    assert gains == [None, None if other else pytest.approx(5)]
    assert len(pictures.dashboard(cells, "title", "").axes) == (2 if other else 3)  # no panel of speed-ups


def test_of_cells_at_one_place_one_is_shown(read, maker):
    kept = {"protocol": Protocol.steps}
    records = [inferring(maker, "resnet18", rate=rate, steps=steps, **kept) for rate, steps in ((10, 512), (20, 1024))]
    figure = pictures.families(read(records, study="000").cells, speed, "images/s", "title", "")
    assert [patch.get_height() for patch in figure.axes[0].patches] == [10]


def test_a_number_with_warnings_is_marked_on_the_picture_and_so_is_what_is_computed_from_it(read, maker):
    records = []
    for device, rate, warnings in (("cpu", 10, ["the loader waited"]), ("gpu", 50, [])):
        steady = {"blocks": [Block(num_steps=10, num_samples=160, seconds=160 / rate)] * 7, "threads": 4}
        steady["latency_s"] = [16 / rate] * 100
        cell = inferring(maker, "resnet18", device).cell
        records.append(maker.ok(cell, rate, data=None, warnings=warnings, **steady))
    drawn = {kind: figure for kind, _, figure in sections.of_suite(read(records, study="000"), "").pictures}
    marks = {kind: [text.get_text() for axes in figure.axes for text in axes.texts] for kind, figure in drawn.items()}
    assert (marks["speedups"], marks["families"]) == (["5.00 !"], ["10.0 !", "50.0"])
    assert texts(drawn["families"])[-1] == "has warnings: see its row"


def test_cells_with_options_or_on_another_engine_are_in_no_picture_of_a_study(read, maker):
    last = maker.cell(mode="infer", options=Options(channels_last=True))
    keras = maker.cell(mode="infer", engine=Engine.keras, keras=KerasSettings())
    found = read([maker.ok(cell, rate) for cell, rate in ((maker.cell(mode="infer"), 5), (last, 10), (keras, 20))])
    (axes,) = pictures.families(found.cells, speed, "images/s", "title", "").axes
    assert [bar.get_height() for bar in axes.patches] == [pytest.approx(5)]
    assert comparison.nearest_cell(found, "mlp", Mode.infer, Device.cpu).cell == found.cells[0].cell
