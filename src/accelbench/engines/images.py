"""The arrays, order and shapes of input images, for all engines. Also checks whether a network accepts the images."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from accelbench.data.arrays import Arrays, load_split, read_classes
from accelbench.data.order import VALIDATION, Last, Order, parts_of
from accelbench.errors import UnknownChoiceError, UnsupportedError, UserError, did_you_mean
from accelbench.schema.cell import EPOCHS, RANDOM, RANDOM_IMAGE_PIPELINES, Cell, Library, ModelSpec, Protocol

Shape = tuple[int, ...]
Made = TypeVar("Made")


@dataclass(frozen=True)
class Takes:
    """The images that a network accepts."""

    data: str  # a data set that fits, for the message
    in_colour: bool | None = None  # True: only colour images; False: only grey images; None: both
    least: int = 1  # the least height and width, in pixels

    def fits(self, shape: Shape) -> bool:
        """Is true if the network accepts images of this shape, (height, width) or (channels, height, width)."""
        has_right_channels = self.in_colour is None or shape[:-2] == ((3,) if self.in_colour else ())
        return has_right_channels and min(shape[-2:]) >= self.least


# Name of a network of accelbench, or of a library -> the images that it accepts. Other networks accept all images.
TAKES: Mapping[str, Takes] = {
    "cnn": Takes("mnist", least=24),
    **dict.fromkeys(("rnn", "lstm", "autoencoder"), Takes("mnist", in_colour=False)),
    "pets_cnn": Takes("cats_vs_dogs", in_colour=True, least=22),
    "scaling_cnn": Takes("random", in_colour=True, least=8),
    "torchvision": Takes("random", in_colour=True),
}


def is_random(cell: Cell) -> bool:
    """Is true if the cell's images are random."""
    return cell.data.pipeline in RANDOM_IMAGE_PIPELINES


def arrays_of(cell: Cell, split: str, data_folder: Path) -> Arrays:
    """Returns the images and labels of a split of the prepared data set.

    If the split is "test", returns all test images. For every other split, returns the first `data.train_images`
    training images. If this setting is None, returns all training images.
    """
    if split == "test":
        return load_split(data_folder, "test")
    return load_split(data_folder, "train", cell.data.train_images)


def order_of(cell: Cell, split: str, num: int, *, last: Last, part: tuple[int, int] = (0, 1)) -> Order:
    """Returns the order in which the samples of a split are fed. The split's arrays have `num` samples.

    Only the split "train" is shuffled. If the protocol runs epochs, the order ends with the epoch. Otherwise it is
    endless. If `protocol=target`, the training images are divided into "train" and `VALIDATION`. See `Order` for `last`
    and `part`.
    """
    among = None
    if cell.protocol == Protocol.target and split != "test":
        among = parts_of(num, cell.target.validation)[split == VALIDATION]
        num = len(among)
    return Order(
        num,
        cell.batch_size,
        shuffle=split == "train",
        seed=cell.seed,
        endless=cell.protocol not in EPOCHS,
        last=last,
        part=part,
        among=among,
    )


def input_of(cell: Cell, data_folder: Path) -> tuple[Shape, int]:
    """Returns the shape of an image and the number of classes.

    The shape is (height, width) or (channels, height, width).
    """
    if is_random(cell):
        return cell.model.input_shape, cell.model.num_classes
    return shape_in(data_folder), len(read_classes(data_folder))


def shape_in(data_folder: Path) -> Shape:
    """Returns the shape of the prepared images in a folder, channels first. Raises DataError if there are no images."""
    return channels_first(load_split(data_folder, "train").images.shape[1:])


def channels_first(shape: Shape) -> Shape:
    """Converts (height, width, channels) to (channels, height, width). The shape of a grey image stays the same."""
    return (shape[2], *shape[:2]) if len(shape) == 3 else shape


def channels_last(shape: Shape) -> Shape:
    """Converts (channels, height, width) to (height, width, channels). The shape of a grey image stays the same."""
    return (*shape[1:], shape[0]) if len(shape) == 3 else shape


def unseen_images(num: int, shape: Shape, *, floats: bool) -> NDArray[Any]:
    """Returns images of noise, of shape (num, *shape). Every call returns new images, which no feed contains.

    If `floats`, the images are float32 from -2 to 2, similar to the images of `data=random`. Otherwise they are uint8.
    """
    images = np.random.default_rng().random((num, *shape), dtype=np.float32)
    return 4 * images - 2 if floats else (255 * images).astype(np.uint8)


def optimizer_named(word: str, makers: Mapping[str, Callable[..., Made]]) -> Callable[..., Made]:
    """Looks up the factory of an optimiser by its name. Raises UnknownChoiceError if `makers` lacks the name."""
    if word not in makers:
        raise UnknownChoiceError("model.optimizer", word, makers)
    return makers[word]


def check_name(model: ModelSpec, names: Sequence[str]) -> None:
    """Raises UserError if the library has no network of this name. `names` are the library's networks."""
    if model.definition not in names:
        hint = did_you_mean(model.definition, names)
        raise UserError(f"model.name={model.definition}: {model.library} has no such network.{hint}")


def why_unfit(model: ModelSpec, shape: Shape, data: str | None = None) -> str | None:
    """Returns a message if the network does not accept images of this shape. Otherwise returns None.

    `data` is the name of the cell's data set. If it is `random`, the message recommends another `model.input_shape`.
    Otherwise, the message recommends a data set with images that the network accepts.
    """
    takes = TAKES.get(model.definition if model.library == Library.accelbench else model.library)
    if takes is None or takes.fits(shape):
        return None
    kind = {True: " in colour", False: " in grey", None: ""}[takes.in_colour]
    least = f" of at least {takes.least} x {takes.least} pixels" if takes.least > 1 else ""
    instead = "another model.input_shape" if data == RANDOM else f"data={takes.data}"
    name = model.name if model.library == Library.accelbench else model.library
    return f"model={name} accepts images{kind}{least}, not {' x '.join(map(str, shape))}: use {instead}"


def check_fits(model: ModelSpec, shape: Shape) -> None:
    """Raises UnsupportedError if the network does not accept images of this shape."""
    if reason := why_unfit(model, shape):
        raise UnsupportedError(reason)
