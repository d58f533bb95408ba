"""Denormal numbers: where a network has them, and whether the CPU computes with 0 instead.

They are smaller than the smallest normal number of their format. A CPU computes with them many times slower.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from accelbench.engines.lightning.structure import tensors_in
from accelbench.errors import UnsupportedError

# A format's integer of the same size, the bits without the sign, and the smallest normal number as such an integer:
# integers, so that it does not matter whether this thread flushes. A CPU computes with fp16 in fp32, where its denormal
# numbers are normal.
BITS = {
    torch.float32: (torch.int32, 2**31 - 1, 1 << 23),
    torch.bfloat16: (torch.int16, 2**15 - 1, 1 << 7),
    torch.float64: (torch.int64, 2**63 - 1, 1 << 52),
}
MAX_VALUES = 1 << 16  # of one tensor that are looked at: about a tenth of a millisecond
MIN_SHARE = 1e-4  # below it, they take less time than noise
DENORMAL = 1 << 20  # as an integer: converting 1e-39 would flush it
PER_THREAD = 1 << 16  # elements with which PyTorch gives each thread a part

NOT_FLUSHED = "asked for flush_denormals=true, but a thread computed with denormal numbers"
NOT_SET = "asked for flush_denormals=true, but the engine does not say that it was set"
WEIGHTS, STATE, OUTPUTS = "weights", "optimiser's state", "outputs"


def flush() -> None:
    """Has this thread and those that it starts compute with 0 instead of denormal numbers.

    To be called before PyTorch starts threads: they inherit it. Raises an UnsupportedError if the CPU can't.
    """
    if not torch.set_flush_denormal(True):
        raise UnsupportedError("flush_denormals=true: this CPU can't flush them: use flush_denormals=false")


def are_flushed() -> bool:
    """Whether all of PyTorch's threads compute with 0 instead of denormal numbers."""
    num = torch.get_num_threads() * PER_THREAD
    values = torch.full((num,), DENORMAL, dtype=torch.int32, device="cpu").view(torch.float32)
    return not (values * 1.0).view(torch.int32).any()


class Denormals:
    """The denormal numbers that were found in a network: for each kind, the layer with the highest share of them."""

    def __init__(self) -> None:
        self.worst: dict[str, tuple[float, str]] = {}

    def look_at_weights(self, network: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> None:
        for name, layer in network.named_modules():
            weights = list(layer.parameters(recurse=False))
            self._note(WEIGHTS, name, weights)
            if optimizer is not None:
                self._note(STATE, name, tensors_in([dict(optimizer.state.get(each, {})) for each in weights]))

    @contextmanager
    def looking_at_outputs(self, network: nn.Module) -> Iterator[None]:
        """Looks at what the innermost layers return in this context."""

        def look(name: str, _layer: nn.Module, _inputs: object, output: object) -> None:
            self._note(OUTPUTS, name, tensors_in(output))

        innermost = [(name, layer) for name, layer in network.named_modules() if next(layer.children(), None) is None]
        with ExitStack() as hooks:
            for name, layer in innermost:
                hooks.callback(layer.register_forward_hook(partial(look, name)).remove)
            yield

    def _note(self, kind: str, name: str, tensors: Iterable[Tensor]) -> None:
        looked_at = [some_values(tensor) for tensor in tensors if tensor.dtype in BITS]
        num = sum(values.numel() for values in looked_at)
        share = sum(map(_num_denormal, looked_at)) / num if num else 0.0
        if share >= MIN_SHARE and share > self.worst.get(kind, (0.0, ""))[0]:
            self.worst[kind] = (share, name)

    def warnings(self) -> Iterator[str]:
        for kind, (share, name) in self.worst.items():
            percent = f"{100 * share:.0f}" if share >= 0.1 else f"{100 * share:.2g}"
            what = f"{percent} % of the {kind} of {name or 'the network'} are denormal numbers"
            yield f"{what}, which slow a CPU down up to 30-fold: flush_denormals=true may be faster"


def some_values(tensor: Tensor) -> Tensor:
    """At most MAX_VALUES of a tensor's values, at equal distances in memory; of equal layouts the same ones."""
    as_in_memory = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)  # `reshape` copies any other order
    values = tensor.detach().permute(as_in_memory).reshape(-1)
    return values[:: values.numel() // MAX_VALUES + 1]


def _num_denormal(values: Tensor) -> int:
    integer, without_sign, smallest_normal = BITS[values.dtype]
    bits = values.contiguous().view(integer).bitwise_and(without_sign)
    return int(((bits > 0) & (bits < smallest_normal)).sum())
