"""Feeds: arrays, pictures that are decoded in advance or for each batch, and random images."""

import itertools
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

from accelbench.data.arrays import Arrays, Encoded
from accelbench.data.order import Order
from accelbench.data.pictures import convert
from accelbench.data.prepare import describe
from accelbench.engines.pytorch import engine
from accelbench.engines.pytorch.feed import ArrayFeed, DrawnFeed, JpegFeed, random_images
from accelbench.engines.pytorch.module import augmented
from accelbench.schema.cell import Augment, DataSpec, Mode, ModelSpec, Pipeline
from fakes import make_cell

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
PETS = ModelSpec(name="pets_cnn", input_shape=(3, 24, 24), num_classes=2)


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    pictures, folder = tmp_path_factory.mktemp("pictures"), tmp_path_factory.mktemp("pets")
    for number in range(80):
        pixels = np.random.default_rng(number // 2).integers(0, 128, (30, 30, 3), dtype=np.uint8)
        pixels[..., 2 * (number % 2)] += 100
        Image.fromarray(pixels).save(pictures / f"{('cat', 'dog')[number % 2]}.{number // 2}.png")
    describe(replace(convert(pictures, ("cat", "dog"), 24, folder), source="two colours"), "cats_vs_dogs", folder)
    return folder


def test_decoding_for_each_batch_is_seen_as_data_wait(pets):
    def wait(pipeline):
        data = DataSpec(name="cats_vs_dogs", pipeline=pipeline, num_workers=1)
        measured = engine.run(make_cell(model=PETS, data=data, batch_size=8), pets)
        return sum(measured.data_s) / sum(measured.latency_s)

    assert wait(Pipeline.jpeg) > 5 * wait(Pipeline.array)


def test_the_output_of_training_on_varied_images_is_that_of_a_new_network(pets):
    data = DataSpec(name="cats_vs_dogs", augment=Augment.flip_shift)
    model = ModelSpec(name="mlp", input_shape=(3, 24, 24), num_classes=2, args={"dropout": 0})
    measurement = engine.run(make_cell(model=model, data=data, mode=Mode.train, batch_size=8), pets)
    assert not measurement.defects
    assert "outputs" in measurement.checked


def test_a_flip_mirrors_half_of_the_images_and_a_shift_moves_by_up_to_an_eighth():
    torch.manual_seed(0)
    rows, columns = torch.meshgrid(torch.arange(16), torch.arange(24), indexing="ij")
    images = torch.stack([rows, columns], -1).to(torch.uint8).expand(400, 16, 24, 2)  # pixels hold their own position
    flipped = augmented(images, Augment.flip)
    mirrored = flipped[:, 0, 0, 1] == 23
    assert flipped[mirrored].equal(images[mirrored].flip(2))
    assert flipped[~mirrored].equal(images[~mirrored])
    assert 150 < mirrored.sum() < 250
    middle = augmented(images, Augment.flip_shift)[:, 8, 12].int()
    assert set((middle[:, 0] - 8).tolist()) == set(range(-2, 3))


@pytest.mark.parametrize(("last", "sizes"), [("keep", [4, 4, 2]), ("drop", [4, 4]), ("pad", [4, 4, 4])])
def test_the_short_last_batch(last, sizes):
    batches = ArrayFeed(Arrays(np.zeros((10, 2, 2), np.uint8), np.zeros(10, np.uint8)), Order(10, 4, last=last))
    assert [len(labels) for _, labels in batches] == sizes
    assert len(batches.order) == len(sizes)
    assert batches.num_samples == (8 if last == "drop" else 10)
    assert sum(int((labels >= 0).sum()) for _, labels in batches) == batches.num_samples


def test_random_images_are_normal_differ_from_batch_to_batch_and_are_the_same_each_time():
    def drawn(**changes):
        settings = {"labelled": True, "seed": 0, **changes}
        return list(itertools.islice(DrawnFeed(random_images((3, 8, 8), 5, 64, torch.bfloat16, **settings), 64), 3))

    (images, labels), (second, _), _ = drawn()
    assert (images.dtype, images.shape) == (torch.bfloat16, (64, 3, 8, 8))
    assert abs(float(images.float().mean())) < 0.05
    assert float(images.float().std()) == pytest.approx(1, abs=0.05)
    assert set(labels.tolist()) == set(range(5))
    others = [second, drawn()[0][0], drawn(seed=1)[0][0]]
    assert [images.equal(other) for other in others] == [False, True, False]
    assert [len(batch) for batch in drawn(labelled=False)] == [1, 1, 1]
    fresh = DrawnFeed(random_images((2, 2), 5, 4, torch.float32, labelled=False, seed=0), 4, fresh=True)
    assert len({tuple(images.flatten().tolist()) for (images,) in itertools.islice(fresh, 20)}) == 20


@pytest.mark.parametrize("settings", [{"shuffle": True, "seed": 3}, {"last": "pad"}, {"shuffle": True, "last": "drop"}])
def test_decoding_in_workers_gives_the_same_batches_as_the_arrays(settings):
    images = np.random.default_rng(0).integers(0, 256, (10, 6, 6, 3), dtype=np.uint8)
    arrays, content, ends = Arrays(images, np.arange(10, dtype=np.uint8)), BytesIO(), []
    for image in images:
        Image.fromarray(image).save(content, "PNG")
        ends.append(content.tell())
    encoded = Encoded(np.frombuffer(content.getvalue(), np.uint8), np.array(ends), arrays.labels)
    orders = [Order(10, 4, **{"last": "keep", **settings}) for _ in range(2)]
    decoded, gathered = JpegFeed(encoded, 6, orders[0], labelled=True, num_workers=2), ArrayFeed(arrays, orders[1])
    for _ in range(2):
        for ours, theirs in zip(decoded, gathered, strict=True):
            assert all(torch.equal(*pair) for pair in zip(ours, theirs, strict=True))
    assert decoded.num_samples == gathered.num_samples
