"""The pictures of the report: what each shows, and what all have in common."""

from matplotlib.backends.backend_agg import FigureCanvasAgg

from accelbench.report.page import compose
from accelbench.report.pictures.batch_lines import MAX_LINES, batch_lines
from accelbench.report.read import read_all
from accelbench.schema.vocab import Mode

MARGIN_INCH = 0.02


def said(texts):
    return [text.get_text() for text in texts]


def test_no_picture_of_the_report_cuts_what_it_says_and_all_say_what_they_measure(results):
    pictures = compose(read_all(results)).pictures
    assert {picture.path for picture in pictures} >= {f"plots/question_{name}.png" for name in ("precision", "batch")}
    for picture in pictures:
        canvas = FigureCanvasAgg(picture.figure)
        canvas.draw()
        drawn, (width, height) = picture.figure.get_tightbbox(canvas.get_renderer()), picture.figure.get_size_inches()
        assert max(-drawn.x0, -drawn.y0, drawn.x1 - width, drawn.y1 - height) <= MARGIN_INCH, picture.path
        assert any(axes.get_xlabel() or axes.get_ylabel() for axes in picture.figure.axes), picture.path


def test_speed_and_latency_stand_side_by_side_with_a_line_for_each_setting(answered, maker):
    rates = {("fp32", 8): 100.0, ("fp32", 32): 150.0, ("bf16", 8): 90.0, ("bf16", 32): 320.0}
    cells = {key: maker.cell("cnn", precision=key[0], batch_size=key[1], mode=Mode.infer) for key in rates}
    records = [maker.ok(cell, rates[key]) for key, cell in cells.items()]
    speed, latency = batch_lines(answered([*records, maker.ok(maker.cell("mlp"), 10.0)])).axes
    assert speed.get_title(loc="left").startswith("cnn, inference")
    assert (speed.get_ylabel(), latency.get_ylabel()) == ("samples/s", "median step (ms)")
    assert {tuple(line.get_ydata()) for line in speed.lines} == {(100.0, 150.0), (90.0, 320.0)}
    assert [len(line.get_xdata()) for line in latency.lines] == [2, 2]
    assert set(said(latency.get_legend().get_texts())) == {"fp32", "bf16"}
    assert batch_lines(answered(records[:1])) is None  # nothing varies
    sizes = [(threads, batch) for threads in range(1, MAX_LINES + 3) for batch in (1, 8)]
    cells = [maker.cell(threads=threads, batch_size=batch) for threads, batch in sizes]
    many = [maker.ok(cell, 10.0 + cell.threads / 10, latency_s=[]) for cell in cells]
    speed, latency = batch_lines(answered(many)).axes
    names = said(latency.get_legend().get_texts())
    assert (len(names), "fp32 1 thread" in names) == (MAX_LINES, False)  # the fastest ones
    assert not any(len(line.get_xdata()) for line in latency.lines)  # steps that were not waited for
