"""Functions on tensors in nested structures of tuples, lists, mappings and dataclasses."""

import copy
import dataclasses
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from accelbench.measuring.checks import MAX_NUMBERS, numbers_of

SMALLER = 0.9  # factor that changes a batch's floating-point numbers


def leaves_in(structure: object) -> Iterator[Any]:
    """The values of a structure, in order."""
    parts: Iterable[Any]
    if isinstance(structure, Mapping):
        parts = structure.values()
    elif isinstance(structure, tuple | list):
        parts = structure
    elif dataclasses.is_dataclass(structure) and not isinstance(structure, type):
        parts = [getattr(structure, item.name) for item in dataclasses.fields(structure)]
    else:
        yield structure
        return
    for part in parts:
        yield from leaves_in(part)


def tensors_in(structure: object) -> Iterator[Tensor]:
    """The tensors of a structure, in order."""
    return (leaf for leaf in leaves_in(structure) if isinstance(leaf, Tensor))


def mapped(structure: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Copies a structure, and replaces each tensor by the result of `change` for this tensor, in order.

    In the copy, a UserDict keeps its type. Every other mapping is copied as a dict.
    """
    if isinstance(structure, Tensor):
        return change(structure)
    if isinstance(structure, tuple | list):
        parts = [mapped(part, change) for part in structure]
        return type(structure)(*parts) if hasattr(structure, "_fields") else type(structure)(parts)
    if isinstance(structure, Mapping):
        contents = {name: mapped(part, change) for name, part in structure.items()}
        if not isinstance(structure, UserDict):
            return contents
        changed = copy.copy(structure)  # keeps attributes, which the user's code may read
        changed.data = contents
        return changed
    if dataclasses.is_dataclass(structure) and not isinstance(structure, type):
        fields = {
            item.name: mapped(getattr(structure, item.name), change) for item in dataclasses.fields(structure)
        }
        return dataclasses.replace(structure, **fields)
    return structure


def copied(batch: Any) -> Any:
    """Copies a batch. The copied tensors do not belong to an autograd graph, and are not inference tensors."""
    with torch.inference_mode(False):
        return mapped(batch, lambda tensor: tensor.detach().clone())


def joined(structures: Sequence[Any]) -> Any:
    """Concatenates the tensors of structures along the first dimension. Their other dimensions must be equal."""
    if len(structures) == 1:
        return structures[0]
    others = zip(*map(tensors_in, structures), strict=True)
    return mapped(structures[0], lambda _: torch.cat(next(others)))


def on_host(structure: Any) -> Any:
    """A copy of the structure with its tensors in host memory."""
    return mapped(structure, lambda tensor: tensor.detach().to("cpu", copy=True))


def num_rows(structure: object) -> int:
    """Returns the size of dimension 0 of the first tensor that is not a scalar. Returns 0 if all are scalars."""
    return next((tensor.size(0) for tensor in tensors_in(structure) if tensor.dim()), 0)


def have_rows(structure: object, num: int) -> bool:
    """Returns True if dimension 0 of each tensor has the size `num`."""
    return all(tensor.shape[:1] == (num,) for tensor in tensors_in(structure))


def outer_rows(structure: Any) -> Any:
    """Returns the first and the last row of a batch, as a batch of two rows.

    Returns None if the tensors of the batch have different numbers of rows, if they have two rows or fewer, or if a
    tensor is not dense or may be an index into another tensor.
    """
    size = num_rows(structure)
    if size <= 2 or not _are_plain(list(tensors_in(structure))) or not have_rows(structure, size):
        return None
    return mapped(structure, lambda tensor: tensor[[0, -1]])


def num_bytes(structure: object) -> int:
    """Returns the bytes of all tensors. For sparse and nested tensors, only stored numbers are counted."""
    return sum(parts_of(tensor)[-1].nbytes for tensor in tensors_in(structure))


def parts_of(tensor: Tensor) -> Sequence[Tensor]:
    """Returns dense tensors with the contents of `tensor`, which may be sparse, nested or quantised.

    The last of them has the numbers. In a sparse tensor, the one before has their places.
    """
    if tensor.is_nested:
        return [torch.cat([part.flatten() for part in tensor.unbind()])]
    if "sparse" in str(tensor.layout):
        sparse = tensor.to_sparse_coo().coalesce()
        return [sparse.indices(), sparse.values()]
    return [tensor.dequantize() if tensor.is_quantized else tensor]


def arrays_in(structure: object) -> list[NDArray[Any]]:
    """Copies the numbers of a structure's tensors and arrays into host memory; see `checks.numbers_of`."""
    arrays: list[NDArray[Any]] = []
    for leaf in leaves_in(structure):
        if isinstance(leaf, Tensor):
            arrays += [numbers_of(_array(part)) for part in parts_of(leaf.detach())]
        elif isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fiubc":
            arrays.append(numbers_of(leaf))
    return arrays


def _array(part: Tensor) -> NDArray[Any]:
    if part.numel() > MAX_NUMBERS:  # makes the tensor smaller before it is copied
        part = part.reshape(-1)[:: -(-part.numel() // MAX_NUMBERS)]
    values = part.cpu().resolve_conj().resolve_neg()
    # NumPy lacks bfloat16 and float8.
    return (values.double() if values.is_floating_point() else values).numpy()


def varied(structure: Any) -> Any:
    """Returns a changed copy of the batch, or None if no tensor can be changed.

    The copy has the samples in another order. If this is impossible, its floating-point values are smaller: if there is
    only one sample, or if a tensor may be an index into another (such as the offsets of an EmbeddingBag).
    """
    size = num_rows(structure)
    tensors = list(tensors_in(structure))
    if size > 1 and _are_plain(tensors):
        moved = mapped(structure, lambda part: part.roll(1, 0) if part.shape[:1] == (size,) else part)
        if not is_same(moved, structure):
            return moved
    if not any(tensor.is_floating_point() for tensor in tensors):
        return None
    return mapped(structure, lambda part: part * SMALLER if part.is_floating_point() else part)


def _are_plain(tensors: Sequence[Tensor]) -> bool:
    """Returns True if all tensors are dense, and none of them may be an index into another tensor."""
    dense = all(tensor.layout == torch.strided and not tensor.is_nested for tensor in tensors)
    return dense and not any(map(_may_be_an_index, tensors))


def _may_be_an_index(tensor: Tensor) -> bool:
    """Whether the tensor has one dimension and whole numbers in ascending order."""
    if tensor.dim() != 1 or tensor.is_floating_point() or tensor.dtype == torch.bool or tensor.size(0) < 2:
        return False
    return bool((tensor.diff() >= 0).all())


def is_same(one: Any, other: Any) -> bool:
    """Returns True if the tensors of two structures have the same dtypes and the same numbers."""
    ours, theirs = (
        [part for tensor in tensors_in(each) for part in parts_of(tensor)] for each in (one, other)
    )
    if len(ours) != len(theirs):
        return False
    return all(
        mine.dtype == its.dtype and torch.equal(mine, its) for mine, its in zip(ours, theirs, strict=True)
    )
