"""Sets and reads PyTorch's global settings that affect speed or numbers."""

import operator
import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np
import torch

from accelbench.errors import UnsupportedError

FULL = "ieee"
TF32 = "tf32"
DEFAULT_DTYPE = "torch.set_default_dtype"
DETERMINISTIC = "torch.use_deterministic_algorithms"
BENCHMARK = "torch.backends.cudnn.benchmark"
# Settings of the precision in which fp32 is computed, from the general to the specific. The first two are PyTorch's
# older settings. If they contradict the newer ones, reading them fails, and the newer ones apply.
OLDER = ("torch.set_float32_matmul_precision", "torch.backends.cudnn.allow_tf32")
FP32_PLACES = tuple(
    f"torch.backends.{place}fp32_precision"
    for place in ("", "cudnn.", "cudnn.conv.", "cudnn.rnn.", "cuda.matmul.")
    + ("mkldnn.", "mkldnn.conv.", "mkldnn.rnn.", "mkldnn.matmul.")
)
RNN = "torch.backends.cudnn.rnn.fp32_precision"

# PyTorch's advice to use its newer settings is silenced.
warnings.filterwarnings("ignore", message="Please use the new API settings to control TF32")

# The functions that read and set a setting.
_Setting = tuple[Callable[[], Any], Callable[[Any], object]]


def _attribute(path: str) -> _Setting:
    owner, _, name = path.removeprefix("torch.").rpartition(".")
    find = operator.attrgetter(owner)
    return lambda: getattr(find(torch), name), lambda value: setattr(find(torch), name, value)


# In the order in which they are set. A later setting may override a part of an earlier one.
SETTINGS: dict[str, _Setting] = {
    # Lambdas look the functions up at each call: when torch_tpu is loaded, it replaces the functions.
    OLDER[0]: (lambda: torch.get_float32_matmul_precision(), lambda word: torch.set_float32_matmul_precision(word)),
    **{path: _attribute(path) for path in (*OLDER[1:], *FP32_PLACES, BENCHMARK)},
    # Not through its attribute: recurrent layers on a GPU import a module that replaces the object with the attribute.
    RNN: (
        partial(torch._C._get_fp32_precision_getter, "cuda", "rnn"),
        partial(torch._C._set_fp32_precision_setter, "cuda", "rnn"),
    ),
    DEFAULT_DTYPE: (torch.get_default_dtype, torch.set_default_dtype),
    # The CPU is set as None: any default device, even the CPU, costs time at each call of torch.
    "torch.set_default_device": (
        torch.get_default_device,
        lambda device: torch.set_default_device(None if device.type == "cpu" else device),
    ),
    "torch.set_num_threads": (torch.get_num_threads, torch.set_num_threads),
    DETERMINISTIC: (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
}


@contextmanager
def new_tensors_in(dtype: torch.dtype) -> Iterator[None]:
    """A context in which `dtype` is torch's default for new tensors."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def seed_generators(seed: int) -> None:
    """Seeds the random generators of Python, NumPy and torch on the host."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _read(name: str) -> Any:
    get, _ = SETTINGS[name]
    if name not in OLDER:
        return get()
    with suppress(RuntimeError):
        return get()
    return None


def snapshot() -> dict[str, Any]:
    """Returns the present value of each setting. It is None if torch can't read the setting (see `OLDER`)."""
    return {name: _read(name) for name in SETTINGS}


def restore(values: Mapping[str, Any]) -> None:
    """Sets each setting that differs from its value in `values`."""
    for name, (_, set_to) in SETTINGS.items():
        value = values.get(name)  # None: to be left as it is, or an old setting that newer ones overrule
        if value is not None and _read(name) != value:
            set_to(value)


def values_of_a_cell(*, allow_tf32: bool) -> dict[str, Any]:
    """Returns the settings that a cell sets before it runs.

    A GPU computes fp32 in TF32 only if `allow_tf32` is true. This includes convolutions, which PyTorch computes in TF32
    by default. cuDNN does not search for its fastest algorithm, because two processes may find different ones.
    """
    places = {place: TF32 if allow_tf32 and "cud" in place else FULL for place in FP32_PLACES}
    return {OLDER[0]: "high" if allow_tf32 else "highest", OLDER[1]: allow_tf32, **places, BENCHMARK: False}


def use_threads(num: int) -> None:
    """Sets PyTorch's number of CPU threads, unless it is `num` already."""
    # Any call of `torch.set_num_threads` also forbids MKL to use fewer threads for small products, until the process
    # ends. Training a small transformer takes 4 % longer after the call.
    if torch.get_num_threads() != num:
        torch.set_num_threads(num)


def multiplies_in_tf32() -> bool:
    """Is true if the present settings make a GPU multiply fp32 matrices in TF32."""
    return bool(_read("torch.backends.cuda.matmul.fp32_precision") == TF32)


def flush_denormals() -> None:
    """Makes this thread compute with 0 instead of denormal numbers. Threads that it starts later do so, too.

    Raises UnsupportedError if the CPU can't do that.
    """
    if not torch.set_flush_denormal(True):
        raise UnsupportedError("flush_denormals=true: this CPU can't flush denormals: use flush_denormals=false")


class HeldSettings:
    """PyTorch's global settings in a measurement, as they are when this object is created."""

    def __init__(self) -> None:
        self.values = snapshot()

    def again(self, dtype: torch.dtype) -> None:
        """Sets the settings again, because the user's code may have changed them. New tensors will have `dtype`."""
        self.values[DEFAULT_DTYPE] = dtype
        restore(self.values)

    def changed(self) -> list[str]:
        """Returns a list with one sentence on the settings that have changed since `again`, or an empty list."""
        changes = [f"{name} from {before} to {now}" for name, before, now in self._differences()]
        return [f"the user's code changed {', '.join(changes)} during the measurement"] if changes else []

    def _differences(self) -> Iterator[tuple[str, Any, Any]]:
        """Yields (name, stored value, present value) for each setting whose two values differ."""
        for name, value in self.values.items():
            now = _read(name)
            is_overruled = value is None or now is None
            if now != value and not is_overruled:
                yield name, value, now
