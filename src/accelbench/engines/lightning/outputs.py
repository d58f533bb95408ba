"""The tensors of a network's output: what they are, and their rows for the images that are compared."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from accelbench.engines.lightning.operators import does_nothing
from accelbench.engines.lightning.structure import tensors_in
from accelbench.measuring.output_check import MAX_ROW_NUMBERS, batch_axes
from accelbench.measuring.outputs import Output, OutputTensor


def all_finite(output: object) -> bool:
    """Whether every floating-point number of an output is finite."""
    floats = [tensor for tensor in tensors_in(output) if tensor.is_floating_point()]
    # fp64 has finite numbers that fp32 lacks.
    wide = (tensor if tensor.dtype == torch.float64 else tensor.float() for tensor in floats)
    return all(bool(torch.isfinite(tensor).all()) for tensor in wide)


def described(output: object, size: int, rows: Sequence[int]) -> Output:
    """The tensors of an output for a batch of `size` samples, with these rows of them, or fewer if rows are large."""
    return [_described(tensor.detach(), size, rows) for tensor in tensors_in(output)]


def _described(tensor: Tensor, size: int, rows: Sequence[int]) -> OutputTensor:
    shape = tuple(tensor.shape)
    axes = batch_axes(shape, size)
    if not axes or not tensor.is_floating_point():
        return OutputTensor(shape)
    values = tensor.cpu()  # first of all: XLA would compile the selection
    most = max(1, MAX_ROW_NUMBERS * size // max(1, values.numel()))
    chosen = torch.tensor(rows[:most])
    # `double` copies: a further step may overwrite the output.
    return OutputTensor(shape, {axis: values.movedim(axis, 0)[chosen].double().numpy() for axis in axes})


LAZY = "the output is computed only when it is read, which no step does: return plain tensors"
# Where the subclasses of tensors come from that compute at once.
TRUSTED = frozenset({"torch", "torchvision", "torchao", "transformers", "tensordict"})


def computes_when_read(output: object) -> bool:
    """Whether reading the tensors of an output, for the first time, runs operators, or may run the user's code."""
    with _Operators() as ran:
        tensors = list(tensors_in(output))
    return ran.any or any(_is_users(type(tensor)) for tensor in tensors)


class _Operators(TorchDispatchMode):
    """Notes whether any operator runs that computes something."""

    def __init__(self) -> None:
        super().__init__()
        self.any = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.any = self.any or not does_nothing(func)
        return func(*args, **(kwargs or {}))


def _is_users(kind: type) -> bool:
    return kind not in (Tensor, nn.Parameter) and kind.__module__.partition(".")[0] not in TRUSTED


def seeded(batches: Iterable[Any], infer: Callable[[Any], Any]) -> Iterator[Any]:
    """The output for each batch, the i-th computed with random numbers of the seed i % 2; see `CellRun.seed_output`."""
    for number, batch in enumerate(batches):
        torch.manual_seed(number % 2)
        yield infer(batch)


def size_of(output: object, sizes: Sequence[int]) -> int:
    """The first of `sizes` that a dimension of an output's tensors has; 1 if none has, so that it is compared whole.

    It is for batches whose samples a function of the user counts: an output may have one row for each row of the batch,
    such as a node, or one for each sample, such as a graph, or one for all.
    """
    shapes = [tuple(tensor.shape) for tensor in tensors_in(output)]
    return next((size for size in sizes if any(batch_axes(shape, size) for shape in shapes)), 1)
