"""What all pictures of the report have in common."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from accelbench.report.page import compose
from accelbench.report.read import read_all

MARGIN_INCH = 0.02


def overhang(figure):
    """By how many inches what is drawn reaches beyond each edge of the picture; below 0 where there is room."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawn, (width, height) = figure.get_tightbbox(canvas.get_renderer()), figure.get_size_inches()
    return {"left": -drawn.x0, "bottom": -drawn.y0, "right": drawn.x1 - width, "top": drawn.y1 - height}


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
