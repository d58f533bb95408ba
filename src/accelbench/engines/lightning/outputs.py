"""The tensors of a network's output: what they are, and their rows for the images that are compared."""

import dataclasses
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from accelbench.measuring.output_check import Output, OutputTensor, batch_axes


def tensors_in(output: object) -> Iterator[Tensor]:
    """The tensors in tuples, lists, mappings and dataclasses, however nested, in their order."""
    if isinstance(output, Tensor):
        yield output
        return
    parts: list[object] = []
    if isinstance(output, Mapping):
        parts = list(output.values())
    elif isinstance(output, tuple | list):
        parts = list(output)
    elif dataclasses.is_dataclass(output):
        parts = [getattr(output, item.name) for item in dataclasses.fields(output)]
    for part in parts:
        yield from tensors_in(part)


def all_finite(output: object) -> bool:
    """Whether every floating-point number of an output is finite."""
    floats = [tensor for tensor in tensors_in(output) if tensor.is_floating_point()]
    # fp64 has finite numbers that fp32 lacks.
    wide = (tensor if tensor.dtype == torch.float64 else tensor.float() for tensor in floats)
    return all(bool(torch.isfinite(tensor).all()) for tensor in wide)


def described(output: object, size: int, num: int) -> Output:
    """The tensors of an output for a batch of `size` images, with the rows of the first `num`."""
    return [_described(tensor.detach(), size, num) for tensor in tensors_in(output)]


def _described(tensor: Tensor, size: int, num: int) -> OutputTensor:
    shape = tuple(tensor.shape)
    axes = batch_axes(shape, size)
    if not axes or not tensor.is_floating_point():
        return OutputTensor(shape)
    values = tensor.cpu()  # first of all: XLA would compile the slice
    return OutputTensor(shape, {axis: values.movedim(axis, 0)[:num].double().numpy() for axis in axes})
