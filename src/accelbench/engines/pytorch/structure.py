"""Tensors in structures: tuples, lists, mappings and dataclasses, however nested."""

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

SMALLER = 0.9  # by which numbers are multiplied, so that a batch is another one


def _leaves_in(structure: object) -> Iterator[Any]:
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
        yield from _leaves_in(part)


def tensors_in(structure: object) -> Iterator[Tensor]:
    """The tensors of a structure, in their order."""
    return (leaf for leaf in _leaves_in(structure) if isinstance(leaf, Tensor))


def mapped(structure: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The structure with `change` applied to its tensors, in their order; a mapping but a UserDict becomes a dict."""
    if isinstance(structure, Tensor):
        return change(structure)
    if isinstance(structure, tuple | list):
        parts = [mapped(part, change) for part in structure]
        return type(structure)(*parts) if hasattr(structure, "_fields") else type(structure)(parts)
    if isinstance(structure, Mapping):
        contents = {name: mapped(part, change) for name, part in structure.items()}
        if not isinstance(structure, UserDict):
            return contents
        changed = copy.copy(structure)  # it may have attributes that the user's code looks at
        changed.data = contents
        return changed
    if dataclasses.is_dataclass(structure) and not isinstance(structure, type):
        fields = {item.name: mapped(getattr(structure, item.name), change) for item in dataclasses.fields(structure)}
        return dataclasses.replace(structure, **fields)
    return structure


def copied(batch: Any) -> Any:
    """A copy of a batch, as a loader would give it."""
    with torch.inference_mode(False):
        return mapped(batch, lambda tensor: tensor.detach().clone())


def joined(structures: Sequence[Any]) -> Any:
    """One structure of several whose tensors differ in their first dimension alone, along which they are joined."""
    if len(structures) == 1:
        return structures[0]
    others = zip(*map(tensors_in, structures), strict=True)
    return mapped(structures[0], lambda _: torch.cat(next(others)))


def on_host(structure: Any) -> Any:
    """A copy of the structure with its tensors in host memory."""
    return mapped(structure, lambda tensor: tensor.detach().to("cpu", copy=True))


def num_rows(structure: object) -> int:
    """The first dimension of the first tensor that has one; 0 without."""
    return next((tensor.size(0) for tensor in tensors_in(structure) if tensor.dim()), 0)


def outer_rows(structure: Any) -> Any:
    """The first and the last row of a batch; None unless all its tensors have as many rows, and more than these."""
    size = num_rows(structure)
    tensors = list(tensors_in(structure))
    if size <= 2 or not _are_plain(tensors) or any(tensor.shape[:1] != (size,) for tensor in tensors):
        return None
    return mapped(structure, lambda tensor: tensor[[0, -1]])


def num_bytes(structure: object) -> int:
    """Bytes of its tensors; of sparse and nested ones, of the numbers that they hold."""
    return sum(part.nbytes for tensor in tensors_in(structure) for part in parts_of(tensor))


def parts_of(tensor: Tensor) -> Sequence[Tensor]:
    """The plain tensors that hold the contents of a tensor, which may be sparse, nested or quantised."""
    if tensor.is_nested:
        return list(tensor.unbind())
    if tensor.layout == torch.sparse_coo:
        whole = tensor.coalesce()
        return [whole.indices(), whole.values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return [tensor.dequantize() if tensor.is_quantized else tensor]


def arrays_in(structure: object) -> list[NDArray[Any]]:
    """Copies of the numbers of a structure's tensors and arrays, in host memory; see `checks.numbers_of`."""
    arrays: list[NDArray[Any]] = []
    for leaf in _leaves_in(structure):
        if isinstance(leaf, Tensor):
            arrays += [numbers_of(_array(part)) for part in parts_of(leaf.detach())]
        elif isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fiubc":
            arrays.append(numbers_of(leaf))
    return arrays


def _array(part: Tensor) -> NDArray[Any]:
    if part.numel() > MAX_NUMBERS:  # before it is copied
        part = part.reshape(-1)[:: -(-part.numel() // MAX_NUMBERS)]
    values = part.cpu().resolve_conj().resolve_neg()
    return (values.double() if values.is_floating_point() else values).numpy()  # NumPy has no formats of 8 bits


def varied(structure: Any) -> Any:
    """A batch with other contents: its samples change places; None if none of its tensors can be changed.

    Where a tensor may be an index into others, such as the offsets of bags, or there is one sample, floating-point
    numbers become a little smaller instead.
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
    """Whether all are dense, and none may be an index into others."""
    dense = all(tensor.layout == torch.strided and not tensor.is_nested for tensor in tensors)
    return dense and not any(map(_may_be_an_index, tensors))


def _may_be_an_index(tensor: Tensor) -> bool:
    """Whether it holds whole numbers in ascending order, in one dimension."""
    if tensor.dim() != 1 or tensor.is_floating_point() or tensor.dtype == torch.bool or tensor.size(0) < 2:
        return False
    return bool((tensor.diff() >= 0).all())


def is_same(one: Any, other: Any) -> bool:
    """Whether the tensors of two structures are the same, number by number."""
    ours = [part for tensor in tensors_in(one) for part in parts_of(tensor)]
    theirs = [part for tensor in tensors_in(other) for part in parts_of(tensor)]
    if len(ours) != len(theirs):
        return False
    return all(mine.dtype == its.dtype and torch.equal(mine, its) for mine, its in zip(ours, theirs, strict=True))
