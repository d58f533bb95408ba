import pytest

from accelbench.report.pictures import phases


def test_the_phases_of_each_bar_add_up_to_the_whole(cells):
    figure = phases.phases(cells, "title", "")
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [reported.label for reported in cells[:3]]
    widths = [patch.get_width() for patch in axes.patches]
    assert sum(widths) == pytest.approx(300.0)
    assert "10.0 ms" in [text.get_text() for text in axes.texts]
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown == ["data wait", "forward", "backward", "framework"]


def test_cells_whose_phases_were_not_measured_have_no_picture(cells):
    assert phases.phases([cells[3]], "title", "") is None
