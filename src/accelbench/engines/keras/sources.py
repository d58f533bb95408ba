"""Which feed gives a Keras cell its batches."""

from pathlib import Path

from accelbench.data.arrays import load_split
from accelbench.engines.formats import FORMATS
from accelbench.engines.keras.feed import ArrayFeed, Feed, RandomFeed
from accelbench.engines.sources import channels_last, input_of, is_random, order_of
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Mode, Pipeline


def feed_of(cell: Cell, split: str, data_folder: Path) -> Feed:
    """The feed of one split.

    Args:
        cell: whose batches they are.
        split: `train` or `test`.
        data_folder: where the data set's arrays are.
    """
    target = None
    if cell.mode == Mode.train:
        target = "images" if cell.model.is_own("autoencoder") else "labels"
    if is_random(cell):
        shape, num_classes = input_of(cell, data_folder)
        return RandomFeed(
            channels_last(shape),
            num_classes,
            cell.batch_size,
            FORMATS[cell.precision].stored,
            target,
            seed=cell.seed,
            resident=cell.data.pipeline == Pipeline.device,
            fresh=cell.data.pipeline == Pipeline.fresh,
        )
    arrays = load_split(data_folder, split)
    num = len(arrays.labels)
    # Keras averages the replicas' gradients without weights: they must have as many samples each. Metrics and outputs
    # count single samples.
    uneven = split == "train" and num % cell.batch_size % cell.devices != 0
    return ArrayFeed(arrays, order_of(cell, split, num, last="drop" if uneven else "keep"), target)
