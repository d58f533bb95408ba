import numpy as np
import pytest

from accelbench.engines.sources import (
    channels_last,
    check_has_epochs,
    first_images,
    input_of,
    is_random,
    order_of,
    unseen_images,
)
from accelbench.errors import UnsupportedError
from accelbench.schema.vocab import Pipeline, Protocol
from accelbench.schema.workload import DataSpec, ModelSpec
from fakes import make_cell

RANDOM = {
    "data": DataSpec(name="random", pipeline=Pipeline.host),
    "model": ModelSpec(name="mlp", input_shape=(3, 8, 6), num_classes=5),
}


def test_random_images_are_as_the_model_says(tmp_path):
    cell = make_cell(**RANDOM)
    assert is_random(cell)
    assert input_of(cell, tmp_path) == ((3, 8, 6), 5)
    assert first_images(cell, tmp_path, 2, lambda: [1, 2, 3]) == [1, 2]


def test_random_images_have_no_epochs():
    with pytest.raises(UnsupportedError, match="protocol=fit: random images have no epochs"):
        check_has_epochs(make_cell(**RANDOM, protocol=Protocol.fit))


def test_a_data_sets_images_are_as_its_arrays(digits):
    assert not is_random(make_cell())
    assert input_of(make_cell(), digits) == ((28, 28), 10)
    images = first_images(make_cell(), digits, 2, list)
    np.testing.assert_array_equal(images, np.load(digits / "test_images.npy")[:2])


def test_channels_go_last():
    assert channels_last((3, 8, 6)) == (8, 6, 3)
    assert channels_last((8, 6)) == (8, 6)


def test_training_is_shuffled_by_the_seed_and_only_a_fit_ends():
    def first(split, **changes):
        return next(iter(order_of(make_cell(**changes), split, 96, last="keep"))).tolist()

    assert first("test") == list(range(32))
    assert first("train", seed=1) == first("train", seed=1) != first("train", seed=2)
    assert order_of(make_cell(), "train", 96, last="keep").endless
    assert len(order_of(make_cell(protocol=Protocol.fit), "train", 100, last="keep")) == 4


@pytest.mark.parametrize(("floats", "ends"), [(False, (0, 255)), (True, (-2, 2))])
def test_unseen_images_rise_and_fall_over_what_a_feed_gives(floats, ends):
    images = unseen_images(20, (4, 5, 3), floats=floats)
    assert images.dtype == (np.float32 if floats else np.uint8)
    low, high = ends
    assert low <= images.min() < low / 2 + 40
    assert high / 2 < images.max() <= high
    steps = np.diff(images.reshape(20, -1).astype(float), axis=1)
    assert ((steps > 0).sum(1) >= 58).sum() + ((steps < 0).sum(1) >= 58).sum() == 20  # but for one step back
    assert len(np.unique(images.reshape(20, -1), axis=0)) == 20
    assert (unseen_images(20, (4, 5, 3), floats=floats) != images).any()
