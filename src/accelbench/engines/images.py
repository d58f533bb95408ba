"""The images that an engine's feeds give, and the networks that take them, looked up by their words."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from accelbench.data.arrays import load_split, read_classes
from accelbench.data.order import Last, Order
from accelbench.errors import UnknownChoiceError, UnsupportedError, UserError
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import RANDOM_IMAGE_PIPELINES, ModelOutput, Protocol, Weights
from accelbench.schema.workload import ModelSpec

Shape = tuple[int, ...]
Made = TypeVar("Made")


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


def optimizer_named(word: str, makers: Mapping[str, Callable[..., Made]]) -> Callable[..., Made]:
    """The maker of the optimiser `word`; an UnknownChoiceError for an unknown word."""
    if word not in makers:
        raise UnknownChoiceError("model.optimizer", word, makers)
    return makers[word]


def own_network(model: ModelSpec, makers: Mapping[str, Callable[..., Made]]) -> Callable[..., Made]:
    """The maker of one of accelbench's own networks; a UserError for an unknown name, or if weights were asked for."""
    if model.definition not in makers:
        raise UnknownChoiceError("model", model.definition, makers)
    if model.weights != Weights.none:
        raise UserError(f"model.weights={model.weights}: {model.definition} has none. Choose from: none.")
    return makers[model.definition]


def check_name(model: ModelSpec, known: Sequence[str]) -> None:
    """Raises a UserError if the network's library does not know it."""
    if model.definition not in known:
        raise UserError(f"model.name={model.definition}: {model.library} has no such network.")


def output_shapes(model: ModelSpec, batch_size: int, image: Shape, num_classes: int) -> Sequence[Shape] | None:
    """The shapes that the output for a batch of images may have; None if it may be any structure of tensors."""
    if model.output == ModelOutput.any:
        return None
    if model.is_own("autoencoder"):
        return [(batch_size, *image)]
    return [(batch_size, num_classes), *([(batch_size, 1)] if num_classes == 2 else [])]  # one logit for two classes


def check_grey(model: str, shape: Shape) -> None:
    """Raises an UnsupportedError if images of `shape` have channels."""
    if len(shape) != 2:
        raise UnsupportedError(f"model={model} takes grey images, not {_words(shape)}")


def check_colour(model: str, shape: Shape, height_width: Shape, least: int) -> None:
    """Raises an UnsupportedError if images are grey, or smaller than `least` pixels."""
    if len(shape) != 3 or min(height_width) < least:
        size = f"at least {least} x {least} pixels"
        raise UnsupportedError(f"model={model} takes images in colour of {size}, not {_words(shape)}")


def check_size(model: str, height_width: Shape, least: int) -> None:
    """Raises an UnsupportedError if images of this height and width are smaller than `least` pixels."""
    if min(height_width) < least:
        size = f"at least {least} x {least} pixels"
        raise UnsupportedError(f"model={model} takes images of {size}, not {_words(height_width)}")


def _words(shape: Shape) -> str:
    return " x ".join(map(str, shape))
