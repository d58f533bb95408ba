"""Which feed gives a Lightning cell its batches."""

from pathlib import Path

import torch

from accelbench.data.arrays import load_encoded, load_split
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.feed import ArrayFeed, DrawnFeed, Feed, JpegFeed, RandomImages
from accelbench.engines.lightning.ranks import RANK_SEEDS
from accelbench.engines.sources import is_random, order_of
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Mode, Pipeline


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
        part: index of this process's part of every batch, and the number of parts.
    """
    labelled = cell.mode == Mode.train
    if is_random(cell):
        model, seed = cell.model, cell.seed + RANK_SEEDS * part[0]
        num = cell.batch_size // part[1]
        draw = RandomImages(model.input_shape, model.num_classes, num, dtype, labelled=labelled, seed=seed)
        put = backend.put if cell.data.pipeline == Pipeline.device else None
        return DrawnFeed(draw, num, fresh=cell.data.pipeline == Pipeline.fresh, put=put)
    train = split == "train"
    # Every batch must have the same size: XLA compiles for each shape, and all ranks test as many batches.
    even = backend.fixed_shapes or (part[1] > 1 and not train)
    arrays = load_split(data_folder, split)
    order = order_of(cell, split, len(arrays.labels), last=("drop" if train else "pad") if even else "keep", part=part)
    if cell.data.pipeline == Pipeline.array:
        return ArrayFeed(arrays, order, labelled=labelled)
    encoded = load_encoded(data_folder, split)
    side = arrays.images.shape[1]
    return JpegFeed(encoded, side, order, labelled=labelled, num_workers=cell.data.num_workers)
