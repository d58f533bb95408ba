"""Looks up networks and optimisers by their words, and checks what both engines' networks require of images."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from accelbench.engines.sources import Shape
from accelbench.errors import UnknownChoiceError, UnsupportedError, UserError
from accelbench.schema.vocab import ModelOutput, Weights
from accelbench.schema.workload import ModelSpec

Made = TypeVar("Made")
MAX_CHOICES = 8  # names in a message


def optimizer_named(word: str, makers: Mapping[str, Callable[..., Made]]) -> Callable[..., Made]:
    """The maker of the optimiser `word`; an UnknownChoiceError if there is none."""
    if word not in makers:
        raise UnknownChoiceError("model.optimizer", word, makers)
    return makers[word]


def own_network(model: ModelSpec, makers: Mapping[str, Callable[..., Made]]) -> Callable[..., Made]:
    """The maker of one of accelbench's own networks; a UserError if there is none, or weights were asked for."""
    if model.definition not in makers:
        raise UnknownChoiceError("model", model.definition, makers)
    if model.weights != Weights.none:
        raise UserError(f"model.weights={model.weights}: {model.definition} has none. Choose from: none.")
    return makers[model.definition]


def check_name(model: ModelSpec, known: Sequence[str]) -> None:
    """Raises a UserError with the names near the network's if its library does not know it."""
    if model.definition not in known:
        near = difflib.get_close_matches(model.definition, known, n=MAX_CHOICES) or known[:MAX_CHOICES]
        raise UserError(
            f"model.name={model.definition}: {model.library} has no such network. Near it: {', '.join(near)}."
        )


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
        raise UnsupportedError(
            f"model={model} takes images in colour of at least {least} x {least} pixels, not {_words(shape)}"
        )


def check_size(model: str, height_width: Shape, least: int) -> None:
    """Raises an UnsupportedError if images of this height and width are smaller than `least` pixels."""
    if min(height_width) < least:
        raise UnsupportedError(
            f"model={model} takes images of at least {least} x {least} pixels, not {_words(height_width)}"
        )


def _words(shape: Shape) -> str:
    return " x ".join(map(str, shape))
