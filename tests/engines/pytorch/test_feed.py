import itertools
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

from accelbench.data.arrays import Arrays, Encoded
from accelbench.data.order import Order
from accelbench.engines.pytorch.feed import ArrayFeed, DrawnFeed, JpegFeed, random_images


def numbered(num):
    """Images in which each pixel is the index of the image."""
    images = np.broadcast_to(np.arange(num, dtype=np.uint8)[:, None, None], (num, 2, 2))
    return Arrays(images.copy(), np.zeros(num, np.uint8))


def feed(num, batch_size, *, labelled=True, **of_order):
    return ArrayFeed(numbered(num), Order(num, batch_size, **{"last": "keep", **of_order}), labelled=labelled)


def order(batches):
    return [int(image[0, 0]) for images, _ in batches for image in images]


@pytest.mark.parametrize(("last", "sizes"), [("keep", [4, 4, 2]), ("drop", [4, 4]), ("pad", [4, 4, 4])])
def test_the_short_last_batch(last, sizes):
    batches = feed(10, 4, last=last)
    assert [len(labels) for _, labels in batches] == sizes
    assert len(batches.order) == len(sizes)
    assert batches.num_samples == (8 if last == "drop" else 10)
    assert sum(int((labels >= 0).sum()) for _, labels in batches) == batches.num_samples


def test_random_images_are_normal_differ_from_batch_to_batch_and_are_the_same_each_time():
    def drawn(**changes):
        settings = {"labelled": True, "seed": 0, **changes}
        return list(itertools.islice(DrawnFeed(random_images((3, 8, 8), 5, 64, torch.bfloat16, **settings), 64), 3))

    first, second, _ = drawn()
    assert first[0].dtype == torch.bfloat16
    assert first[0].shape == (64, 3, 8, 8)
    assert abs(float(first[0].float().mean())) < 0.05
    assert float(first[0].float().std()) == pytest.approx(1, abs=0.05)
    assert set(first[1].tolist()) == set(range(5))
    assert not first[0].equal(second[0])
    assert first[0].equal(drawn()[0][0])
    assert not first[0].equal(drawn(seed=1)[0][0])
    assert [len(batch) for batch in drawn(labelled=False)] == [1, 1, 1]
    fresh = DrawnFeed(random_images((2, 2), 5, 4, torch.float32, labelled=False, seed=0), 4, fresh=True)
    assert len({tuple(images.flatten().tolist()) for (images,) in itertools.islice(fresh, 20)}) == 20


def encoded(arrays):
    """The pictures as PNG files."""
    files = []
    for image in arrays.images:
        content = BytesIO()
        Image.fromarray(image).convert("RGB").save(content, "PNG")
        files.append(content.getvalue())
    ends = np.cumsum([len(file) for file in files])
    return Encoded(np.frombuffer(b"".join(files), np.uint8), ends, arrays.labels)


@pytest.mark.parametrize("settings", [{"shuffle": True, "seed": 3}, {"last": "pad"}, {"shuffle": True, "last": "drop"}])
def test_decoding_in_workers_gives_the_same_batches_as_the_arrays(settings):
    images = np.random.default_rng(0).integers(0, 256, (10, 6, 6, 3), dtype=np.uint8)
    arrays = Arrays(images, np.arange(10, dtype=np.uint8))
    orders = [Order(10, 4, **{"last": "keep", **settings}) for _ in range(2)]
    decoded = JpegFeed(encoded(arrays), 6, orders[0], labelled=True, num_workers=2)
    gathered = ArrayFeed(arrays, orders[1])
    for _ in range(2):
        for ours, theirs in zip(decoded, gathered, strict=True):
            assert all(torch.equal(*pair) for pair in zip(ours, theirs, strict=True))
    assert decoded.num_samples == gathered.num_samples
