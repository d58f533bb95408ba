import pytest

from accelbench.schema.cell import KerasSettings, Options
from accelbench.schema.measurement import Block
from accelbench.schema.vocab import Device, Engine, Mode, Protocol
from five_studies import comparison, pictures, sections
from report.conftest import inferring


def speed(reported):
    return reported.speed


def texts(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize("other", [{}, {"side": 64}, {"threads": 1}, {"seed": 1}, {"protocol": Protocol.steps}])
def test_pictures_have_no_speedup_between_cells_that_differ_in_more_than_the_device(read, maker, other):
    records = [inferring(maker, "resnet18", "cpu", rate=10), inferring(maker, "resnet18", "gpu", rate=50, **other)]
    cells = read(records, study="000").cells
    gains = [comparison.ratio(cell, comparison.equal_on(Device.cpu, cell, cells)) for cell in cells]
    assert gains == [None, None if other else pytest.approx(5)]


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


def test_one_cell_at_a_place_without_options_or_another_engine_is_in_a_picture_of_a_study(read, maker):
    last = maker.cell(mode="infer", options=Options(channels_last=True))
    keras = maker.cell(mode="infer", engine=Engine.keras, keras=KerasSettings())
    cells = [maker.cell(mode="infer"), last, keras, maker.cell(mode="infer", seed=1)]
    found = read([maker.ok(cell, 5.0 * 2**i) for i, cell in enumerate(cells)])
    (axes,) = pictures.families(found.cells, speed, "images/s", "title", "").axes
    assert [bar.get_height() for bar in axes.patches] == [found.cells[0].speed]
    assert comparison.nearest_cell(found, "mlp", Mode.infer, Device.cpu).cell == found.cells[0].cell
