import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from accelbench.report.pictures.direct_labels import Named, label_right, moved_apart


def test_places_that_are_far_apart_stay():
    assert moved_apart([0.1, 0.5, 0.9], 0.1) == [0.1, 0.5, 0.9]


@pytest.mark.parametrize("places", [[0.5] * 4, [0.0, 0.01, 0.02], [0.95, 0.97, 0.99, 1.0]])
def test_places_that_are_near_are_moved_apart_and_stay_inside(places):
    found = moved_apart(places, 0.1)
    assert all(after - before >= 0.1 - 1e-9 for before, after in zip(found, found[1:], strict=False))
    assert min(found) >= 0
    assert max(found) <= 1


def test_names_of_points_at_one_height_do_not_overlap():
    figure = Figure(figsize=(5, 2), layout="constrained")
    axes = figure.subplots()
    axes.set_yscale("log")
    axes.set_ylim(1, 100)
    label_right(axes, [Named(1, 10 + i / 10, f"setting {i}", "black") for i in range(5)], 1.4)
    FigureCanvasAgg(figure).draw()
    boxes = sorted((Text.get_window_extent(text) for text in axes.texts), key=lambda box: box.y0)
    assert all(above.y0 >= below.y1 - 1 for below, above in zip(boxes, boxes[1:], strict=False))
    assert max(box.x1 for box in boxes) <= figure.bbox.x1
