"""The images that an engine's feeds give, and the networks that take them, looked up by their words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from accelbench.data.arrays import Arrays, load_split, read_classes
from accelbench.data.order import VALIDATION, Last, Order, parts_of
from accelbench.errors import UnknownChoiceError, UnsupportedError, UserError, did_you_mean
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import EPOCHS, RANDOM, RANDOM_IMAGE_PIPELINES, Library, Protocol, Weights
from accelbench.schema.workload import ModelSpec

Shape = tuple[int, ...]
Made = TypeVar("Made")


@dataclass(frozen=True)
class Takes:
    """Which images a network takes."""

    data: str  # a data set with such images: its study's
    in_colour: bool | None = None  # None: either kind
    least: int = 1  # height and width

    def fits(self, shape: Shape) -> bool:
        """Whether it takes images of this shape, (height, width) or (channels, height, width)."""
        is_of_kind = self.in_colour is None or shape[:-2] == ((3,) if self.in_colour else ())
        return is_of_kind and min(shape[-2:]) >= self.least


# accelbench's networks by their definitions, and other libraries'; those that are not here take all images.
TAKES: Mapping[str, Takes] = {
    "cnn": Takes("mnist", least=24),
    **dict.fromkeys(("rnn", "lstm", "autoencoder"), Takes("mnist", in_colour=False)),
    "pets_cnn": Takes("cats_vs_dogs", in_colour=True, least=22),
    "scaling_cnn": Takes("random", in_colour=True, least=8),
    "torchvision": Takes("random", in_colour=True),
}


def is_random(cell: Cell) -> bool:
    """Whether the cell's images are random."""
    return cell.data.pipeline in RANDOM_IMAGE_PIPELINES


def check_has_epochs(cell: Cell) -> None:
    """Raises an UnsupportedError if whole epochs of random images were asked for."""
    if is_random(cell) and cell.protocol in EPOCHS:
        raise UnsupportedError(f"protocol={cell.protocol}: random images have no epochs; use protocol=window or steps")


def arrays_of(cell: Cell, split: str, data_folder: Path) -> Arrays:
    """The arrays of a split of the prepared data set; of `VALIDATION`, as of training, the part that the cell uses."""
    is_test = split == "test"
    return load_split(data_folder, "test" if is_test else "train", None if is_test else cell.data.train_images)


def order_of(cell: Cell, split: str, num: int, *, last: Last, part: tuple[int, int] = (0, 1)) -> Order:
    """The order of a split of `num` samples: shuffled to train, endless unless in epochs; see `Order`, `parts_of`."""
    seed = cell.seed
    shuffle = split == "train"
    endless = cell.protocol not in EPOCHS
    among = None
    if cell.protocol == Protocol.target and split != "test":
        among = parts_of(num, cell.target.validation)[split == VALIDATION]
    num = num if among is None else len(among)
    return Order(num, cell.batch_size, shuffle=shuffle, seed=seed, endless=endless, last=last, part=part, among=among)


def input_of(cell: Cell, data_folder: Path) -> tuple[Shape, int]:
    """The shape of an image, (height, width) or (channels, height, width), and the number of classes."""
    if is_random(cell):
        return cell.model.input_shape, cell.model.num_classes
    return shape_in(data_folder), len(read_classes(data_folder))


def shape_in(data_folder: Path) -> Shape:
    """The shape of the images in a folder of prepared arrays, with the channels first. Raises DataError."""
    return channels_first(load_split(data_folder, "train").images.shape[1:])


def channels_first(shape: Shape) -> Shape:
    """(height, width, channels) as (channels, height, width); a grey image's shape as it is."""
    return (shape[2], *shape[:2]) if len(shape) == 3 else shape


def channels_last(shape: Shape) -> Shape:
    """(channels, height, width) as (height, width, channels); a grey image's shape as it is."""
    return (*shape[1:], shape[0]) if len(shape) == 3 else shape


def unseen_images(num: int, shape: Shape, *, floats: bool) -> NDArray[Any]:
    """Images of noise that no feed gives, others at each call: float32 from -2 to 2, like random images, or uint8.

    Each image has another contrast, so that networks that average over an image give unlike outputs for them.
    """
    numbers = np.random.default_rng()
    contrast = numbers.uniform(0.1, 1.0, (num, *(1 for _ in shape))).astype(np.float32)
    images = contrast * numbers.random((num, *shape), dtype=np.float32)
    return 4 * images - 2 if floats else (255 * images).astype(np.uint8)


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
        meant = did_you_mean(model.definition, known)
        raise UserError(f"model.name={model.definition}: {model.library} has no such network.{meant}")


def why_unfit(model: ModelSpec, shape: Shape, data: str | None = None) -> str | None:
    """Why the network does not take images of this shape, those of `data`, and what mends it; None if it does."""
    takes = TAKES.get(model.definition if model.library == Library.accelbench else model.library)
    if takes is None or takes.fits(shape):
        return None
    kind = {True: " in colour", False: " in grey", None: ""}[takes.in_colour]
    least = f" of at least {takes.least} x {takes.least} pixels" if takes.least > 1 else ""
    mended = "another model.input_shape" if data == RANDOM else f"data={takes.data}"
    name = model.name if model.library == Library.accelbench else model.library
    return f"model={name} takes images{kind}{least}, not {' x '.join(map(str, shape))}: use {mended}"


def check_fits(model: ModelSpec, shape: Shape) -> None:
    """Raises an UnsupportedError if the network does not take images of this shape."""
    if reason := why_unfit(model, shape):
        raise UnsupportedError(reason)
