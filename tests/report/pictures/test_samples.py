import numpy as np
import pytest

from accelbench.data.arrays import Arrays, save_split
from accelbench.data.manifest import read_manifest
from accelbench.data.obtain import Obtained
from accelbench.data.prepare import describe
from accelbench.report import build, page, read
from accelbench.report.pictures import samples


@pytest.fixture
def prepared(tmp_path):
    """Prepares a data set of two classes, whose pixels are 10 and 200."""

    def prepare(stand_in=None, side=8, colours=()):
        folder = tmp_path / "data" / "mnist"
        folder.mkdir(parents=True)
        labels = np.arange(24, dtype=np.uint8) % 2
        images = np.where(labels == 0, 10, 200).astype(np.uint8).reshape(24, *[1] * (2 + len(colours)))
        arrays = Arrays(np.broadcast_to(images, (24, side, side, *colours)).copy(), labels)
        for split in ("train", "test"):
            save_split(folder, split, arrays)
        describe(Obtained(classes=("dark", "light"), source="here", stand_in_reason=stand_in), "mnist", folder)
        return folder

    return prepare


@pytest.mark.parametrize(("side", "colours"), [(8, ()), (96, (3,))])
def test_each_class_has_a_row_of_its_own_images(prepared, side, colours):
    (axes,) = samples.sheet(prepared(side=side, colours=colours), "title", "").axes
    shown = np.asarray(axes.images[0].get_array())
    small = min(side, samples.MAX_SIDE)
    assert shown.shape == (2 * small + samples.GAP, samples.NUM * (small + samples.GAP) - samples.GAP, 3)
    assert (shown[:small, :small] == 10).all()
    assert (shown[-small:, -small:] == 200).all()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["dark", "light"]
    assert list(axes.texts) == []


def test_a_stand_in_is_marked_and_of_what_was_not_measured_no_samples_are_shown(prepared, tmp_path, maker):
    data = read_manifest(prepared(stand_in="no network"))
    maker.suite(tmp_path / "results", [maker.ok(maker.cell(), 1, data=data)])
    path = build.build(tmp_path / "results", tmp_path / "report", data=tmp_path / "data")
    (picture,) = page.compose(read.read_all(tmp_path / "results"), data=tmp_path / "data").samples
    assert [text.get_text() for text in picture.figure.axes[0].texts] == ["STAND-IN"]
    assert picture.figure.get_suptitle().endswith("NOT MNIST: a stand-in")
    assert (path.parent / "plots/samples_mnist.png").exists()
    assert "The data</h2>" in path.read_text()
    maker.suite(tmp_path / "results", [maker.ok(maker.cell(), 1)])  # of another data set
    composed = page.compose(read.read_all(tmp_path / "results"), data=tmp_path / "data")
    assert composed.samples == []
    words = "No samples of mnist: the data set that was measured is not in the data folder."
    assert composed.without_samples == [words]
