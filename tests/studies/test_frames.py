from five_studies import frames
from report.tables.rows import texts


def test_frames_per_second_stand_beside_batches_and_images_per_second(scaled):
    cpu, gpu, *others = texts(frames.table(scaled))
    shown = ("its FPS", "ours: batches/s", "ours: images/s", "batch", "its speed-up (x)", "ours: speed-up (x)")
    assert [cpu[name] for name in shown] == ["20 to 30", "36.2", "290", "8", "–", "–"]
    assert [gpu[name] for name in shown] == ["100 to 150", "181", "1,450", "8", "4 to 6", "5.00"]
    assert [row["its FPS"] for row in others] == ["3 to 5", "20 to 30", "1 to 2", "8 to 12"]


def test_the_comparison_has_boxes_of_single_steps_bars_and_lines_with_the_published(scaled):
    figure = frames.comparison(scaled, "Comparison", "")
    boxes, bars, times, gains = figure.axes
    assert (len(boxes.patches), len(bars.patches)) == (6, 6)  # three batches on two devices
    labels = ["cpu, ours", "gpu, ours", "cpu, published", "gpu, published"]
    assert times.get_legend_handles_labels()[1] == labels
    assert gains.get_legend_handles_labels()[1] == ["gpu, ours", "gpu, published"]
    assert frames.comparison(scaled, "Comparison", "NOT MNIST").get_suptitle().endswith("NOT MNIST")
