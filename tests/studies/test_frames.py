from five_studies import frames
from report.rows import texts


def test_frames_per_second_stand_beside_batches_and_images_per_second(scaled):
    cpu, gpu, *others = texts(frames.table(scaled))
    shown = ("its FPS", "ours: batches/s", "ours: images/s", "batch", "its speed-up (x)", "ours: speed-up (x)")
    assert [cpu[name] for name in shown] == ["20 to 30", "36.2", "290", "8", "–", "–"]
    assert [gpu[name] for name in shown] == ["100 to 150", "181", "1,450", "8", "4 to 6", "5.00"]
    assert [row["its FPS"] for row in others] == ["3 to 5", "20 to 30", "1 to 2", "8 to 12"]
