"""Tensors in structures: tuples, lists, mappings and dataclasses, however nested."""

import copy
import dataclasses
import random
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor


def tensors_in(structure: object) -> Iterator[Tensor]:
    """The tensors of a structure, in their order."""
    if isinstance(structure, Tensor):
        yield structure
    elif isinstance(structure, Mapping):
        yield from chain.from_iterable(map(tensors_in, structure.values()))
    elif isinstance(structure, tuple | list):
        yield from chain.from_iterable(map(tensors_in, structure))
    elif dataclasses.is_dataclass(structure):
        yield from tensors_in([getattr(structure, item.name) for item in dataclasses.fields(structure)])


def mapped(structure: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The structure with `change` applied to its tensors, in their order; a mapping but a UserDict becomes a dict."""
    if isinstance(structure, Tensor):
        return change(structure)
    if isinstance(structure, Mapping):
        contents = {name: mapped(part, change) for name, part in structure.items()}
        if not isinstance(structure, UserDict):
            return contents
        own = copy.copy(structure)  # it may have attributes that the user's code looks at
        own.data = contents
        return own
    if isinstance(structure, tuple | list):
        parts = [mapped(part, change) for part in structure]
        return type(structure)(*parts) if hasattr(structure, "_fields") else type(structure)(parts)
    if dataclasses.is_dataclass(structure) and not isinstance(structure, type):
        fields = {item.name: mapped(getattr(structure, item.name), change) for item in dataclasses.fields(structure)}
        return dataclasses.replace(structure, **fields)
    return structure


def refilled(structure: Any, tensors: Iterable[Tensor]) -> Any:
    """The structure with other tensors in the places of its own."""
    following = iter(tensors)
    return mapped(structure, lambda _: next(following))


def joined(structures: Sequence[Any]) -> Any:
    """One structure of several whose tensors differ in their first dimension alone, along which they are joined."""
    if len(structures) == 1:
        return structures[0]
    return refilled(structures[0], map(torch.cat, zip(*map(tensors_in, structures), strict=True)))


def on_host(structure: Any) -> Any:
    """A copy of the structure with its tensors in host memory."""
    return mapped(structure, lambda tensor: tensor.detach().to("cpu", copy=True))


def num_rows(structure: object) -> int:
    """The first dimension of the first tensor that has one; 0 without."""
    return next((len(tensor) for tensor in tensors_in(structure) if tensor.dim()), 0)


def reordered(structure: Any, order: Sequence[int]) -> Any:
    """The structure whose tensors of as many rows have row `order[i]` in the place of row i."""
    indices, size = torch.tensor(order), len(order)
    return mapped(structure, lambda tensor: tensor[indices] if tensor.dim() and len(tensor) == size else tensor)


def mixed(structure: Any, other: Any, rows: Sequence[int]) -> Any:
    """The structure with these rows of the tensors of another one that have as many rows; of others, its tensors.

    None if it is the same as the other in a further row: then it can't be said whether that row's output should change.
    """
    size, chosen = num_rows(structure), torch.tensor(rows, dtype=torch.int64)
    same = torch.ones(size, dtype=torch.bool)
    tensors = []
    for mine, its in zip(tensors_in(structure), tensors_in(other), strict=True):
        if mine.dim() and mine.shape == its.shape and len(mine) == size:
            same &= (mine == its).flatten(1).all(1) if mine.dim() > 1 else mine == its
            tensors.append(mine.index_copy(0, chosen, its[chosen]))
        else:
            tensors.append(its)
    same[chosen] = False
    return None if same.any() else refilled(structure, tensors)


def keys_of_rows(structure: Any, rows: Sequence[int], size: int) -> list[int]:
    """Hashes of what these rows, of `size`, have in all tensors; a tensor that has no such rows belongs to each."""

    def hashed(tensor: Tensor) -> int:
        content: bytes = tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        return hash((tensor.shape, tensor.dtype, content))

    tensors = [tensor.detach().cpu() for tensor in tensors_in(structure)]
    whole = hash(tuple(hashed(tensor) for tensor in tensors if not tensor.dim() or len(tensor) != size))
    by_row = [tensor for tensor in tensors if tensor.dim() and len(tensor) == size]
    return [hash((whole, *(hashed(tensor[row]) for tensor in by_row))) for row in rows]


def varied_rows(structure: Any, size: int) -> Any:
    """A structure of the same kind with other contents: its rows are in another order, each a little different."""
    # Floating-point numbers are a thousandth smaller. In each row of whole numbers one of them takes another one's
    # place, as tokens or pixels may; a row with one number, and a mask, are left as they are.

    def changed(tensor: Tensor) -> Tensor:
        if tensor.is_floating_point():
            return tensor * random.SystemRandom().uniform(0.998, 0.999)
        has_rows = tensor.dim() > 1 and len(tensor) == size and tensor[0].numel() > 1
        if not has_rows or tensor.dtype == torch.bool or tensor.max() - tensor.min() < 2:
            return tensor
        flat = tensor.flatten(1).clone()
        for row in flat:
            first, second = random.SystemRandom().sample(range(len(row)), 2)
            row[first] = row[second]
        return flat.reshape(tensor.shape)

    return mapped(reordered(structure, random.SystemRandom().sample(range(size), size)), changed)


def is_same(one: Any, other: Any) -> bool:
    """Whether the tensors of two structures are the same, number by number."""
    return all(torch.equal(*pair) for pair in zip(tensors_in(one), tensors_in(other), strict=False))


def copied_into(structure: Any, source: Any) -> bool:
    """Copies the tensors of `source` into those of `structure`; False, and nothing is copied, if the shapes differ."""
    pairs = list(zip(tensors_in(structure), tensors_in(source), strict=False))
    if [pair[0].shape for pair in pairs] != [pair[1].shape for pair in pairs]:
        return False
    for into, tensor in pairs:
        into.copy_(tensor)
    return True
