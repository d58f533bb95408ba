import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from accelbench.data import digits


@pytest.fixture(scope="module")
def splits():
    return digits.enlarged()


def test_has_the_shape_of_mnist(splits):
    for split, num in digits.NUM_IMAGES.items():
        assert splits[split].images.shape == (num, 28, 28)
        assert splits[split].labels.shape == (num,)
        assert splits[split].images.dtype == splits[split].labels.dtype == np.uint8


def test_no_source_image_is_in_both_splits_and_none_is_left_out():
    sources = digits.source_images(load_digits().target)
    assert sorted([*sources["train"], *sources["test"]]) == list(range(1797))
    # What the manifest says of them.
    assert f"{len(sources['train']):,} training and {len(sources['test'])} test images" in digits.SOURCE


def test_no_source_image_is_there_twice_under_two_numbers():
    assert len(np.unique(load_digits().data, axis=0)) == 1797


@given(st.lists(st.integers(0, 9), min_size=300, max_size=600))
@settings(max_examples=25)
def test_each_class_has_its_share_in_each_split(drawn):
    labels = np.array([*drawn, *list(range(10)) * 10])
    sources = digits.source_images(labels)
    assert not set(sources["train"]) & set(sources["test"])
    for cls in range(10):
        share = (labels[sources["test"]] == cls).sum() / (labels == cls).sum()
        assert abs(share - digits.TEST_SHARE) <= 1 / (labels == cls).sum()


def test_labels_belong_to_their_images(splits):
    """What is learnt from one split holds in the other."""
    train, test = splits["train"], splits["test"]
    nearest = KNeighborsClassifier(1).fit(train.images[:4000].reshape(-1, 784), train.labels[:4000])
    assert nearest.score(test.images[:500].reshape(-1, 784), test.labels[:500]) > 0.93


def test_digits_are_whole_and_in_the_middle(splits):
    images = splits["train"].images
    border = np.concatenate([images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1]], axis=1)
    assert (border.max(axis=1) > 128).mean() < 0.01
    rows, columns = np.mgrid[:28, :28]
    mass = images.sum(axis=(1, 2))
    for axis in (rows, columns):
        centre = (images * axis).sum(axis=(1, 2)) / mass
        assert np.abs(centre - 13.5).max() < digits.MAX_SHIFT_PIXELS + 1
        assert centre.std() > 0.5
    assert 0.13 < images.mean() / 255 < 0.2  # MNIST's is .1307: white strokes on black


def test_no_two_pictures_are_the_same(splits):
    both = np.concatenate([splits[split].images.reshape(-1, 784) for split in ("train", "test")])
    assert len(np.unique(both, axis=0)) == len(both)
