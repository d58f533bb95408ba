from pathlib import Path

from accelbench.report import read
from accelbench.schema.vocab import Mode
from five_studies import times_picture
from five_studies.comparison import compare_with_published


def test_bars_write_ours_as_estimated_and_the_published_as_they_are(tmp_path: Path, maker) -> None:
    found = read.read(maker.suite(tmp_path, [maker.ok(maker.cell(), 20_000)]))
    figure = times_picture.times(compare_with_published(found, Mode.train), "title", "NOT MNIST: a stand-in")
    written = [text.get_text() for text in figure.axes[0].texts]
    assert written[:4] == ["~15.0", "71.622", "8.983", "70.666"]
    assert figure.get_suptitle() == "title (~ marks an estimated time)\nNOT MNIST: a stand-in"


def test_the_work_of_our_times_is_named_since_a_studys_may_be_another(tmp_path: Path, maker) -> None:
    found = read.read(maker.suite(tmp_path, [maker.ok(maker.cell(), 20_000)]))
    axes = times_picture.times(compare_with_published(found, Mode.train), "title", "").axes[0]
    said = "the published times are of the study's own data and epochs)"
    assert axes.get_title(loc="left") == f"Training time ({said}"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["mlp\nours: 5 x 60,000 samples"]


def test_nothing_to_show_is_no_picture() -> None:
    assert times_picture.times([], "title", "") is None


def test_a_published_evaluation_is_named_as_such_beside_our_inference(tmp_path: Path, maker) -> None:
    found = read.read(maker.suite(tmp_path, [maker.ok(maker.cell(mode=Mode.infer), 20_000)]))
    said = "the published times are evaluations of the study's own data)"
    (axes,) = times_picture.times(compare_with_published(found, Mode.infer), "title", "").axes
    assert axes.get_title(loc="left") == f"Testing time ({said}"
    (axes,) = times_picture.times(compare_with_published(found, Mode.infer), "title", "NOT MNIST: a stand-in").axes
    assert axes.get_title(loc="left") == f"Testing time (not comparable: {said}"
