"""Which feed gives a cell its batches, and what its images are like."""

from pathlib import Path

import torch

from accelbench.data.arrays import load_encoded, load_split
from accelbench.data.manifest import read_classes
from accelbench.data.order import Order
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.feed import ArrayFeed, Feed, JpegFeed, RandomFeed
from accelbench.engines.lightning.networks import Shape
from accelbench.engines.lightning.ranks import RANK_SEEDS
from accelbench.errors import UnsupportedError
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import RANDOM_IMAGE_PIPELINES, Mode, Pipeline, Protocol


def feed_of(
    cell: Cell, split: str, data_folder: Path, dtype: torch.dtype, backend: Backend, part: tuple[int, int] = (0, 1)
) -> Feed:
    """The feed of one split.

    Args:
        cell: whose batches they are.
        split: `train` or `test`.
        data_folder: where the data set's arrays are.
        dtype: of random images.
        backend: the cell's device.
        part: which share of every batch, and of how many; see `Order`.

    Raises:
        UnsupportedError: whole epochs of random images were asked for.
    """
    train, labelled = split == "train", cell.mode == Mode.train
    if cell.data.pipeline in RANDOM_IMAGE_PIPELINES:
        if cell.protocol == Protocol.fit:
            raise UnsupportedError("protocol=fit: random images have no epochs; use protocol=window or steps")
        return RandomFeed(
            cell.model.input_shape,
            cell.model.num_classes,
            cell.batch_size // part[1],
            dtype,
            labelled=labelled,
            seed=cell.seed + RANK_SEEDS * part[0],
            fresh=cell.data.pipeline == Pipeline.fresh,
            put=backend.put if cell.data.pipeline == Pipeline.device else None,
        )
    # So many batches, and alike, for every share of them.
    even = backend.fixed_shapes or (part[1] > 1 and not train)
    arrays = load_split(data_folder, split)
    order = Order(
        len(arrays.labels),
        cell.batch_size,
        shuffle=train,
        seed=cell.seed,
        endless=cell.protocol != Protocol.fit,
        last=("drop" if train else "pad") if even else "keep",
        part=part,
    )
    if cell.data.pipeline == Pipeline.array:
        return ArrayFeed(arrays, order, labelled=labelled)
    encoded = load_encoded(data_folder, split)
    side = arrays.images.shape[1]
    return JpegFeed(encoded, side, order, labelled=labelled, num_workers=cell.data.num_workers)


def input_of(cell: Cell, data_folder: Path) -> tuple[Shape, int]:
    """The shape of an image as the network takes it, and the number of classes."""
    if cell.data.pipeline in RANDOM_IMAGE_PIPELINES:
        return cell.model.input_shape, cell.model.num_classes
    shape = load_split(data_folder, "train").images.shape[1:]
    return (shape[2], *shape[:2]) if len(shape) == 3 else shape, len(read_classes(data_folder))
