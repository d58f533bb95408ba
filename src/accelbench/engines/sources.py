"""Which samples an engine's feeds give, and what their images are like."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.data.arrays import load_split
from accelbench.data.manifest import read_classes
from accelbench.data.order import Last, Order
from accelbench.errors import UnsupportedError
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import RANDOM_IMAGE_PIPELINES, Protocol

Shape = tuple[int, ...]


def is_random(cell: Cell) -> bool:
    """Whether the cell's images are random."""
    return cell.data.pipeline in RANDOM_IMAGE_PIPELINES


def check_has_epochs(cell: Cell) -> None:
    """Raises an UnsupportedError if whole epochs of random images were asked for."""
    if is_random(cell) and cell.protocol == Protocol.fit:
        raise UnsupportedError("protocol=fit: random images have no epochs; use protocol=window or steps")


def order_of(cell: Cell, split: str, num: int, *, last: Last, part: tuple[int, int] = (0, 1)) -> Order:
    """The order of a split's `num` samples: shuffled for training, without end unless in `fit`; see `Order`."""
    shuffle, endless = split == "train", cell.protocol != Protocol.fit
    return Order(num, cell.batch_size, shuffle=shuffle, seed=cell.seed, endless=endless, last=last, part=part)


def input_of(cell: Cell, data_folder: Path) -> tuple[Shape, int]:
    """The shape of an image, (height, width) or (channels, height, width), and the number of classes."""
    if is_random(cell):
        return cell.model.input_shape, cell.model.num_classes
    shape = load_split(data_folder, "train").images.shape[1:]
    return (shape[2], *shape[:2]) if len(shape) == 3 else shape, len(read_classes(data_folder))


def channels_last(shape: Shape) -> Shape:
    """(channels, height, width) as (height, width, channels); a grey image's shape as it is."""
    return (*shape[1:], shape[0]) if len(shape) == 3 else shape


def first_images(cell: Cell, data_folder: Path, num: int, drawn: Callable[[], Any]) -> Any:
    """The first `num` images of the test set, or of the random ones in host memory that `drawn` returns."""
    if is_random(cell):
        return drawn()[:num]
    return np.asarray(load_split(data_folder, "test").images[:num])


def unseen_images(num: int, shape: Shape, *, floats: bool) -> NDArray[Any]:
    """Images that no feed gives, others at each call: the pixels rise up to a random one, and begin anew behind it.

    Networks that average over an image give nearly equal outputs for all random images; for these they differ, since
    each has another contrast. With `floats` they are float32 from -2 to 2, like random images; else uint8.
    """
    low, high, dtype = (-2, 2, np.float32) if floats else (0, 255, np.uint8)
    numbers, size = np.random.default_rng(), math.prod(shape)
    rising = np.linspace(low, high, size).astype(np.float32)
    images = np.empty((num, size), dtype)
    for image in images:
        image[:] = np.roll(rising, numbers.integers(size)) * np.float32(numbers.uniform(0.3, 1.0))
        if numbers.random() < 0.5:
            image[:] = image[::-1].copy()
    return images.reshape(num, *shape)


def pictures_alike(fed: NDArray[Any]) -> NDArray[Any]:
    """Pictures that no feed gives, others at each call, of the kind of `fed`: on them a network has as much to do.

    Those of `fed`, (n, height, width, ...), change their places, and each is shifted around its edges.
    """
    numbers = np.random.default_rng()
    height, width = fed.shape[1:3]
    order = numbers.permutation(len(fed))
    shifts = numbers.integers(1, [max(2, height), max(2, width)], (len(fed), 2))
    return np.stack([np.roll(image, shift, (0, 1)) for image, shift in zip(fed[order], shifts, strict=True)])
