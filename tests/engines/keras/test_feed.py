import itertools

import numpy as np
import pytest

from accelbench.engines.keras.feed import feed_of
from accelbench.schema.vocab import Mode, Pipeline
from accelbench.schema.workload import DataSpec, ModelSpec
from engines.keras.cells import keras_cell

# Of 20 batches, how many are different ones.
DIFFERENT = {Pipeline.host: 8, Pipeline.device: 1, Pipeline.fresh: 20}


@pytest.mark.parametrize("pipeline", DIFFERENT)
def test_random_images_repeat_or_are_drawn_again_and_depend_on_the_seed_alone(pipeline, tmp_path):
    model = ModelSpec(name="mlp", input_shape=(2, 3), num_classes=5)
    cell = keras_cell(mode=Mode.train, model=model, data=DataSpec(name="random", pipeline=pipeline))

    def drawn():
        return list(itertools.islice(feed_of(cell, "train", tmp_path), 20))

    first, second = drawn(), drawn()
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])
    assert len({images.tobytes() for images, _ in first}) == DIFFERENT[pipeline]
    assert {(images.shape, labels.shape) for images, labels in first} == {((32, 2, 3), (32,))}
