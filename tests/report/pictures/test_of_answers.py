"""The pictures that compare all settings of each model: lines over batches, a map of precisions, the trade-off."""

import dataclasses

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from accelbench.answers.ranking import answers
from accelbench.report.pictures.batch_lines import MAX_LINES, batch_lines
from accelbench.report.pictures.heat_map import heat_map
from accelbench.report.pictures.trade_off import MAX_NAMED
from accelbench.report.pictures.trade_off import trade_off as picture
from accelbench.report.read import read
from accelbench.report.tables.trade_off import table, trade_off
from accelbench.schema.vocab import Mode

RATES = {("fp32", 8): 100.0, ("fp32", 32): 150.0, ("bf16", 8): 90.0, ("bf16", 32): 320.0}


@pytest.fixture
def found(tmp_path, maker):
    """The answers about two networks: one at two batch sizes in two precisions, one with a single cell."""
    cells = {key: maker.cell("cnn", precision=key[0], batch_size=key[1], mode=Mode.infer) for key in RATES}
    records = [maker.ok(cell, RATES[key]) for key, cell in cells.items()]
    return answers(read(maker.suite(tmp_path, [*records, maker.ok(maker.cell("mlp"), 10.0)])).cells)


def test_speed_and_latency_stand_side_by_side_with_a_line_for_each_setting(found):
    speed, latency = batch_lines(found).axes
    assert speed.get_title(loc="left").startswith("cnn, inference")
    assert (speed.get_ylabel(), latency.get_ylabel()) == ("samples/s", "median step (ms)")
    drawn = {tuple(line.get_ydata()) for line in speed.lines}
    assert drawn == {(100.0, 150.0), (90.0, 320.0)}
    assert [len(line.get_xdata()) for line in latency.lines] == [2, 2]
    assert {text.get_text() for text in speed.texts} == {"fp32", "bf16"}


def test_of_many_settings_the_fastest_have_lines(tmp_path, maker):
    sizes = [(threads, batch) for threads in range(1, MAX_LINES + 3) for batch in (1, 8)]
    cells = [maker.cell(threads=threads, batch_size=batch) for threads, batch in sizes]
    suite = maker.suite(tmp_path, [maker.ok(cell, 10.0 * cell.threads) for cell in cells])
    speed = batch_lines(answers(read(suite).cells)).axes[0]
    assert len(speed.lines) == MAX_LINES
    assert "fp32 1 thread" not in {text.get_text() for text in speed.texts}


def test_the_map_has_a_row_for_each_setting_and_a_number_in_each_field(found):
    (axes,) = heat_map(found).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["bf16", "fp32"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["8", "32"]
    assert [text.get_text() for text in axes.texts] == ["90.0", "320", "100", "150"]


def test_the_front_has_the_settings_that_no_other_beats_in_both(found):
    known = [each for each in map(trade_off, (answer.group for answer in found)) if each]
    (only,) = known  # training has no latency that a user waits for
    assert [(each.cell.precision, each.cell.batch_size) for each in only.front] == [("bf16", 32), ("fp32", 8)]
    assert only.width == pytest.approx((32 / 320) / (8 / 100))
    assert len(table(known).rows) == 2
    (axes,) = picture([("cnn", only)]).axes
    assert [text.get_text() for text in axes.texts] == [
        *("1", "1  bf16, batch 32\n    320/s, 135 ms"),
        *("2", "2  fp32, batch 8\n    100/s, 108 ms"),
    ]


def test_of_a_long_front_both_ends_are_named(tmp_path, maker):
    cells = [maker.cell(batch_size=2**i, mode=Mode.infer) for i in range(10)]
    suite = maker.suite(tmp_path, [maker.ok(cell, 100.0 * 1.5**i) for i, cell in enumerate(cells)])
    (answer,) = answers(read(suite).cells)
    (axes,) = picture([("cnn", trade_off(answer.group))]).axes
    names = [text.get_text() for text in axes.texts if "batch" in text.get_text()]
    assert len(names) == MAX_NAMED
    assert names[0].startswith("1  fp32, batch 512")
    assert names[-1].startswith(f"{MAX_NAMED}  fp32, batch 1\n")


def test_a_precision_at_one_batch_size_makes_no_map(tmp_path, maker):
    settings = [("fp32", 8), ("fp32", 32), ("bf16", 8)]
    records = [maker.ok(maker.cell(precision=word, batch_size=size), 10.0) for word, size in settings]
    assert heat_map(answers(read(maker.suite(tmp_path, records)).cells)) is None


def test_where_nothing_varies_there_is_no_picture(tmp_path, maker):
    alone = answers(read(maker.suite(tmp_path, [maker.ok(maker.cell(), 10.0)])).cells)
    assert batch_lines(alone) is None
    assert heat_map(alone) is None
    assert picture([]) is None


def overlaps(figure, labels):
    """The pairs of texts that share a place in the drawn picture."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in labels if text.get_text()]
    return [(a, b) for i, (a, box) in enumerate(boxes) for b, other in boxes[i + 1 :] if box.overlaps(other)]


@pytest.mark.parametrize("sizes", [[8, 16, 17, 18, 32], [2**i for i in range(15)], [1, 1000, 1001], [60_000, 65_536]])
def test_numbers_of_batch_sizes_do_not_overlap(tmp_path, maker, sizes):
    cells = [maker.cell("cnn", precision=word, batch_size=size) for word in ("fp32", "bf16") for size in sizes]
    found = answers(read(maker.suite(tmp_path, [maker.ok(cell, 100.0) for cell in cells])).cells)
    figure = batch_lines([*found, *found])
    for axes in figure.axes:
        assert not overlaps(figure, axes.get_xticklabels())
        assert {str(sizes[0]), str(sizes[-1])} <= {label.get_text() for label in axes.get_xticklabels()}


def test_cells_whose_steps_were_not_waited_for_are_drawn_without_their_latency(tmp_path, maker):
    records = [maker.ok(maker.cell("cnn", batch_size=size), 100.0, latency_s=[]) for size in (8, 32)]
    speed, latency = batch_lines(answers(read(maker.suite(tmp_path, records)).cells)).axes
    assert len(speed.lines) == 1
    assert [text.get_text() for text in latency.texts] == ["not known"]


def test_numbers_of_near_points_stand_on_both_sides(tmp_path, maker):
    cells = [maker.cell(batch_size=size, mode=Mode.infer) for size in (8, 16, 17, 18, 32)]
    suite = maker.suite(tmp_path, [maker.ok(cell, 100.0 * cell.batch_size**0.5) for cell in cells])
    (answer,) = answers(read(suite).cells)
    figure = picture([("a", trade_off(answer.group)), ("b", trade_off(answer.group))])
    for axes in figure.axes:
        assert not overlaps(figure, [text for text in axes.texts if len(text.get_text()) == 1])


@pytest.mark.parametrize("draw", [batch_lines, heat_map])
def test_titles_of_neighbours_do_not_overlap(found, draw):
    found[0] = dataclasses.replace(found[0], apart="2026-11-20_18-00-00-adhoc, window.measure_s=0.2, steps=512")
    figure = draw([found[0], found[0]])
    titles = [axes._left_title for axes in figure.axes]
    assert not overlaps(figure, titles)
    assert all(title.get_window_extent().x1 <= figure.bbox.x1 for title in titles)
