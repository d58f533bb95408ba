"""The pictures of the report: what each shows, and what all have in common."""

import dataclasses

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from accelbench.report import trade_off
from accelbench.report.page import compose
from accelbench.report.pictures import style
from accelbench.report.pictures.batch_lines import MAX_LINES, batch_lines
from accelbench.report.pictures.lines import MAX_DOTS, Dot, dots, phases
from accelbench.report.read import read_all
from accelbench.schema.measurement import Work
from accelbench.schema.vocab import Mode
from report.pictures.samples import working

RATES = {("fp32", 8): 100.0, ("fp32", 32): 150.0, ("bf16", 8): 90.0, ("bf16", 32): 320.0}
KINDS = ("precision", "batch", "latency")
MARGIN_INCH = 0.02


@pytest.fixture
def found(answered, maker):
    """The answers about two networks: one at two batch sizes in two precisions, one with a single cell."""
    cells = {key: maker.cell("cnn", precision=key[0], batch_size=key[1], mode=Mode.infer) for key in RATES}
    records = [maker.ok(cell, RATES[key]) for key, cell in cells.items()]
    return answered([*records, maker.ok(maker.cell("mlp"), 10.0)])


def said(texts):
    return [text.get_text() for text in texts]


def overlaps(figure, labels):
    """The pairs of texts that share a place in the drawn picture."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in labels if text.get_text()]
    return [(a, b) for i, (a, box) in enumerate(boxes) for b, other in boxes[i + 1 :] if box.overlaps(other)]


def test_no_picture_of_the_report_cuts_what_it_says_and_all_say_what_they_measure(results):
    pictures = compose(read_all(results)).pictures
    assert {picture.path for picture in pictures} >= {f"plots/question_{name}.png" for name in KINDS}
    for picture in pictures:
        canvas = FigureCanvasAgg(picture.figure)
        canvas.draw()
        drawn, (width, height) = picture.figure.get_tightbbox(canvas.get_renderer()), picture.figure.get_size_inches()
        assert max(-drawn.x0, -drawn.y0, drawn.x1 - width, drawn.y1 - height) <= MARGIN_INCH, picture.path
        assert any(axes.get_xlabel() or axes.get_ylabel() for axes in picture.figure.axes), picture.path


def test_long_titles_stay_inside_of_their_picture_and_of_neighbours_do_not_overlap(found):
    figure = style.sized(6.5, 3)
    figure.subplots()
    name = "2026-11-21_18-00-00-adhoc"
    style.finished(figure, f"Time per network and device, {name} (~ marks an estimated time)", "NOT MNIST: a stand-in")
    FigureCanvasAgg(figure).draw()
    box = figure._suptitle.get_window_extent()
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert name in figure._suptitle.get_text()
    found[0] = dataclasses.replace(found[0], apart=f"{name}, window.measure_s=0.2, steps=512")
    figure = batch_lines([found[0], found[0]])
    titles = [axes._left_title for axes in figure.axes]
    assert not overlaps(figure, titles)
    assert all(title.get_window_extent().x1 <= figure.bbox.x1 for title in titles)


def test_speed_and_latency_stand_side_by_side_with_a_line_for_each_setting(found, answered, maker):
    speed, latency = batch_lines(found).axes
    assert speed.get_title(loc="left").startswith("cnn, inference")
    assert (speed.get_ylabel(), latency.get_ylabel()) == ("samples/s", "median step (ms)")
    assert {tuple(line.get_ydata()) for line in speed.lines} == {(100.0, 150.0), (90.0, 320.0)}
    assert [len(line.get_xdata()) for line in latency.lines] == [2, 2]
    assert set(said(speed.texts)) == {"fp32", "bf16"}
    records = [maker.ok(maker.cell("cnn", batch_size=size), 100.0, latency_s=[]) for size in (8, 32)]
    assert batch_lines(answered(records[:1])) is None  # nothing varies
    speed, latency = batch_lines(answered(records)).axes
    assert (len(speed.lines), said(latency.texts)) == (1, ["not known"])  # steps that were not waited for


def test_of_many_settings_the_fastest_have_lines_whose_names_do_not_overlap(answered, maker):
    sizes = [(threads, batch) for threads in range(1, MAX_LINES + 3) for batch in (1, 8)]
    cells = [maker.cell(threads=threads, batch_size=batch) for threads, batch in sizes]
    figure = batch_lines(answered([maker.ok(cell, 10.0 + cell.threads / 10) for cell in cells]))
    assert len(figure.axes[0].lines) == len(figure.axes[0].texts) == MAX_LINES
    assert "fp32 1 thread" not in said(figure.axes[0].texts)
    FigureCanvasAgg(figure).draw()
    boxes = sorted((Text.get_window_extent(text) for text in figure.axes[0].texts), key=lambda box: box.y0)
    assert all(above.y0 >= below.y1 - 1 for below, above in zip(boxes, boxes[1:], strict=False))
    assert max(box.x1 for box in boxes) <= figure.bbox.x1


@pytest.mark.parametrize("sizes", [[8, 16, 17, 18, 32], [2**i for i in range(15)], [1, 1000, 1001]])
def test_numbers_of_batch_sizes_do_not_overlap(answered, maker, sizes):
    cells = [maker.cell("cnn", precision=word, batch_size=size) for word in ("fp32", "bf16") for size in sizes]
    found = answered([maker.ok(cell, 100.0) for cell in cells])
    figure = batch_lines([*found, *found])
    for axes in figure.axes:
        assert not overlaps(figure, axes.get_xticklabels())
        assert {str(sizes[0]), str(sizes[-1])} <= set(said(axes.get_xticklabels()))


def test_the_front_has_the_settings_that_no_other_beats_in_both(found):
    (only,) = [each for each in map(trade_off.trade_off, found) if each]  # nobody waits for a step of training
    assert [(each.cell.precision, each.cell.batch_size) for each in only.front] == [("bf16", 32), ("fp32", 8)]
    assert only.width == pytest.approx((32 / 320) / (8 / 100))
    assert len(trade_off.table([only]).rows) == 2
    (axes,) = trade_off.picture([only]).axes
    assert said(axes.texts) == [
        *("1", "1  bf16, batch 32\n    320/s, 135 ms"),
        *("2", "2  fp32, batch 8\n    100/s, 108 ms"),
    ]


def test_of_a_long_front_both_ends_are_named_and_numbers_of_near_points_do_not_overlap(answered, maker):
    cells = [maker.cell(batch_size=2**i, mode=Mode.infer) for i in range(10)]
    (long,) = map(trade_off.trade_off, answered([maker.ok(cell, 100.0 * 1.5**i) for i, cell in enumerate(cells)]))
    names = [name for name in said(trade_off.picture([long]).axes[0].texts) if "batch" in name]
    assert len(names) == trade_off.MAX_NAMED
    assert names[0].startswith("1  fp32, batch 512")
    assert names[-1].startswith(f"{trade_off.MAX_NAMED}  fp32, batch 1\n")
    cells = [maker.cell(batch_size=size, mode=Mode.infer) for size in (8, 16, 17, 18, 32)]
    (near,) = map(trade_off.trade_off, answered([maker.ok(cell, 100.0 * cell.batch_size**0.5) for cell in cells]))
    figure = trade_off.picture([near, near])
    for axes in figure.axes:
        assert not overlaps(figure, [text for text in axes.texts if len(text.get_text()) == 1])


def test_the_phases_of_each_bar_add_up_to_the_whole(read, maker):
    bare = working(maker, "rnn", work=Work(uncounted=["aten.fft"]), breakdown=None)
    records = [working(maker, "mlp"), working(maker, "mlp", "bf16"), working(maker, "cnn", mode=Mode.train), bare]
    cells = read(records).cells
    figure = phases(cells, "title")
    (axes,) = figure.axes
    assert said(axes.get_yticklabels()) == [reported.label for reported in cells[:3]]
    assert sum(patch.get_width() for patch in axes.patches) == pytest.approx(300.0)
    assert "10.0 ms" in said(axes.texts)
    assert said(figure.legends[0].get_texts()) == ["data wait", "forward", "backward", "framework"]
    assert phases(cells[3:], "title") is None


def test_dots_of_ratios_keep_those_farthest_from_one_and_name_them(maker) -> None:
    found = [Dot(name=f"n{i}", value=1.1 + i / 100, text=str(i), cell=maker.cell()) for i in range(MAX_DOTS)]
    slow = Dot(name="slow", value=0.1, text="0.1x", cell=maker.cell())
    (axes,) = dots([*found, slow], "title", "axis", "base").axes
    names = said(axes.get_yticklabels())
    assert (len(names), names[-1]) == (MAX_DOTS, "slow")
    assert "n0" not in names
    assert dots([slow], "title", "axis") is dots([], "title", "axis") is None
