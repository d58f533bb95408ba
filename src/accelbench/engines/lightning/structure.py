"""Tensors in structures: tuples, lists, mappings and dataclasses, however nested."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor


def tensors_in(structure: object) -> Iterator[Tensor]:
    """The tensors of a structure, in their order."""
    if isinstance(structure, Tensor):
        yield structure
        return
    parts: Iterable[object] = ()
    if isinstance(structure, Mapping):
        parts = structure.values()
    elif isinstance(structure, tuple | list):
        parts = structure
    elif dataclasses.is_dataclass(structure):
        parts = [getattr(structure, item.name) for item in dataclasses.fields(structure)]
    for part in parts:
        yield from tensors_in(part)


def mapped(structure: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The structure with `change` applied to its tensors, in their order; a mapping becomes a dict."""
    if isinstance(structure, Tensor):
        return change(structure)
    if isinstance(structure, Mapping):
        return {name: mapped(part, change) for name, part in structure.items()}
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


def on_host(structure: Any) -> Any:
    """A copy of the structure with its tensors in host memory."""
    return mapped(structure, lambda tensor: tensor.detach().to("cpu", copy=True))


def shifted(structure: Any, by: int, size: int) -> Any:
    """The structure whose tensors of `size` rows have row i + `by` in the place of row i, in a circle."""
    return mapped(structure, lambda tensor: tensor.roll(-by, 0) if tensor.dim() and len(tensor) == size else tensor)


def copied_into(structure: Any, source: Any) -> bool:
    """Copies the tensors of `source` into those of `structure`; False, and nothing is copied, if the shapes differ."""
    pairs = list(zip(tensors_in(structure), tensors_in(source), strict=False))
    if [pair[0].shape for pair in pairs] != [pair[1].shape for pair in pairs]:
        return False
    for into, tensor in pairs:
        into.copy_(tensor)
    return True
