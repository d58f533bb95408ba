"""What all pictures of the report have in common."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from accelbench.report import run_picture
from accelbench.report.page import compose
from accelbench.report.sweep import read_all
from accelbench.vocab import Protocol, Status
from report.test_work_plots import working

MARGIN_INCH = 0.02


def overhang(figure):
    """By how many inches what is drawn reaches beyond each edge of the picture; below 0 where there is room."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawn, (width, height) = figure.get_tightbbox(canvas.get_renderer()), figure.get_size_inches()
    return {"left": -drawn.x0, "bottom": -drawn.y0, "right": drawn.x1 - width, "top": drawn.y1 - height}


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


@pytest.fixture(scope="module")
def pictures(results):
    return compose(read_all(results)).pictures


def test_no_picture_of_the_report_cuts_what_it_says(pictures):
    assert len(pictures) >= 3
    cut = {(p.path, edge): by for p in pictures for edge, by in overhang(p.figure).items() if by > MARGIN_INCH}
    assert cut == {}


def test_every_picture_says_what_it_measures(pictures):
    unnamed = [
        picture.path
        for picture in pictures
        if not any(axes.get_xlabel() or axes.get_ylabel() for axes in picture.figure.axes)
    ]
    assert unnamed == []


def test_a_runs_picture_shows_its_speed_its_steps_and_their_phases(maker):
    made = working(maker, "cnn")
    figure = run_picture.draw(made)
    speed, latency, phases = figure.axes
    assert titles(figure)[0].startswith("samples/s of each block: median ")
    assert "p50" in titles(figure)[1]
    assert titles(figure)[2] == "a step by phase: 10.0 ms"
    assert len(speed.lines[0].get_xdata()) == len(made.measurement.blocks)
    assert len(latency.lines[0].get_xdata()) == len(made.measurement.latency_s)
    assert [text.get_text() for text in phases.get_legend().get_texts()] == [
        "data wait 10%",
        "forward 60%",
        "backward 20%",
        "framework 10%",
    ]
    assert max(overhang(figure).values()) <= MARGIN_INCH


def test_a_runs_picture_of_whole_epochs_shows_the_epochs(maker):
    figure = run_picture.draw(maker.ok(maker.cell(protocol=Protocol.fit), 500.0))
    assert titles(figure)[0].startswith("samples/s of each epoch: median ")


def test_a_name_with_dollars_is_no_formula(maker):
    cell = maker.cell("a$x_$b")
    assert max(overhang(run_picture.draw(maker.ok(cell, 500.0))).values()) <= MARGIN_INCH


def test_the_first_epoch_is_not_drawn_and_not_counted(maker):
    made = maker.ok(maker.cell(protocol=Protocol.fit), 500.0)
    assert len(made.measurement.epochs) > 1
    line = run_picture.draw(made).axes[0].lines[0]
    assert list(line.get_xdata()) == list(range(2, len(made.measurement.epochs) + 1))


def test_a_run_without_true_samples_has_no_picture(maker):
    assert run_picture.draw(maker.record(maker.cell(), Status.failed)) is None
