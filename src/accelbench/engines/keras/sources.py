"""Which feed gives a cell its batches, and what its images are like."""

from pathlib import Path

from accelbench.data.arrays import load_split
from accelbench.data.manifest import read_classes
from accelbench.data.order import Order
from accelbench.engines.keras.feed import ArrayFeed, Feed, RandomFeed
from accelbench.engines.keras.networks import Shape
from accelbench.errors import UnsupportedError
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import RANDOM, Mode, Pipeline, Protocol


def feed_of(cell: Cell, split: str, data_folder: Path, dtype: str) -> Feed:
    """The feed of one split.

    Args:
        cell: whose batches they are.
        split: `train` or `test`.
        data_folder: where the data set's arrays are.
        dtype: of random images, by NumPy's name.

    Raises:
        UnsupportedError: whole epochs of random images were asked for.
    """
    target = None
    if cell.mode == Mode.train:
        target = "images" if cell.model.is_own("autoencoder") else "labels"
    if cell.data.name == RANDOM:
        if cell.protocol == Protocol.fit:
            raise UnsupportedError("protocol=fit: random images have no epochs; use protocol=window or steps")
        shape, num_classes = input_of(cell, data_folder)
        return RandomFeed(
            shape,
            num_classes,
            cell.batch_size,
            dtype,
            target,
            seed=cell.seed,
            resident=cell.data.pipeline == Pipeline.device,
            fresh=cell.data.pipeline == Pipeline.fresh,
        )
    arrays = load_split(data_folder, split)
    num = len(arrays.labels)
    # Keras averages the replicas' gradients as if each had as many samples; metrics and outputs it takes from each one.
    uneven = split == "train" and num % cell.batch_size % cell.devices != 0
    order = Order(
        num,
        cell.batch_size,
        shuffle=split == "train",
        seed=cell.seed,
        endless=cell.protocol != Protocol.fit,
        last="drop" if uneven else "keep",
    )
    return ArrayFeed(arrays, order, target)


def input_of(cell: Cell, data_folder: Path) -> tuple[Shape, int]:
    """The shape of an image as the network takes it, channels last, and the number of classes."""
    if cell.data.name == RANDOM:
        shape = cell.model.input_shape  # channels first, as most libraries have it
        return (*shape[1:], shape[0]) if len(shape) == 3 else shape, cell.model.num_classes
    return load_split(data_folder, "train").images.shape[1:], len(read_classes(data_folder))
