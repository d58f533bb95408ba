"""A device that torch lets Python define. It computes what it is given at once, but has it done only later.

It stands in for a TPU: the package that `install` writes registers it, as torch_tpu registers itself.
"""

import os
import time
from types import SimpleNamespace

import torch
from torch.utils._pytree import tree_leaves, tree_map

NAME = "tpu"
OPERATOR_S, FORGETS = (
    "LATER_OPERATOR_S",
    "LATER_FORGETS",
)  # variables: how long each operator takes; whether no one waits
ENTRY = "[torch.backends]\ntorch_tpu = later:load\n"
kept = []  # else torch drops the operators
precision = "medium"  # of products, until it is set


def install(folder, monkeypatch):
    """Writes a package torch_tpu that has this device, where this process and those that it starts find it."""
    (folder / "torch_tpu").mkdir()
    (folder / "torch_tpu/__init__.py").touch()
    info = folder / "torch_tpu-0.2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_tpu\nVersion: 0.2.0\n")
    (info / "entry_points.txt").write_text(ENTRY)
    monkeypatch.syspath_prepend(str(folder))


class Clock:
    """When all will be done that was launched. A launch returns at once."""

    def __init__(self):
        self.operator_s, self.done_s = float(os.environ[OPERATOR_S]), 0.0

    def now(self):
        return max(self.done_s, time.perf_counter())

    def launch(self):
        self.done_s = self.now() + self.operator_s

    def wait(self, device=None):
        time.sleep(max(0.0, self.done_s - time.perf_counter()))


class Event:
    def __init__(self, device, enable_timing):
        assert (device, enable_timing) == (NAME, True)

    def record(self):
        self.at_s = clock.now()

    def elapsed_time(self, end):
        return 1000 * (end.at_s - self.at_s)


class There(torch.Tensor):
    """A tensor on the device; `value` is the same tensor on the CPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # what is copied to the host is a plain tensor

    @staticmethod
    def __new__(cls, value):
        layout = {"strides": value.stride(), "storage_offset": value.storage_offset(), "dtype": value.dtype}
        with torch.inference_mode(False):  # outside of it, torch would refuse its detached tensors
            return torch.Tensor._make_wrapper_subclass(cls, value.shape, **layout, device=torch.device(NAME, 0))

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        name, values = func.overloadpacket.__name__, tree_map(here, (args, kwargs or {}))
        places = {id(each.value): each for each in args if isinstance(each, There)}
        leaves = tree_leaves((args, kwargs or {}))
        to_host = any(isinstance(each, torch.device) and not is_there(each) for each in leaves)
        if to_host or name == "_local_scalar_dense" or (name == "copy_" and not isinstance(args[0], There)):
            clock.wait()
            return func(*values[0], **values[1])
        assert name not in ("linear", "mm", "addmm") or precision == "highest", "else a TPU computes fp32 in bf16"
        clock.launch()
        found = func(*values[0], **values[1])
        return tree_map(lambda each: there(each, places), found)


def set_precision(word):
    global precision
    precision = word


def there(each, places):
    if not isinstance(each, torch.Tensor):
        return each
    return places[id(each)] if id(each) in places else There(each)


def is_there(device):
    return device.type == NAME


def here(each):
    if isinstance(each, There):
        return each.value
    return torch.device("cpu") if isinstance(each, torch.device) and is_there(each) else each


def load():
    """What torch_tpu's entry point does: registers the device."""
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    global clock
    clock = Clock()
    state = dict.fromkeys(("manual_seed_all", "set_rng_state", "set_device"), lambda *_: None)
    state |= dict.fromkeys(("is_available", "is_initialized"), lambda: True) | {"_is_in_bad_fork": lambda: False}
    state |= {"device_count": lambda: 1, "current_device": lambda: 0, "get_device_name": lambda: "a device in Python"}
    module = SimpleNamespace(
        **state, get_rng_state=torch.get_rng_state, get_amp_supported_dtype=lambda: [torch.bfloat16]
    )
    _setup_privateuseone_for_python_backend(NAME, module)
    library, autocast = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
    kept.extend((library, autocast))
    library.impl("empty.memory_format", empty, "PrivateUse1")
    library.impl("empty_strided", empty_strided, "PrivateUse1")
    autocast.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    library.impl("_copy_from", copy_from, "PrivateUse1")
    library.impl("linear", linear, "AutocastPrivateUse1")
    # No device in Python can have these.
    torch.accelerator.synchronize = (lambda device: None) if FORGETS in os.environ else clock.wait
    torch.accelerator.max_memory_allocated = lambda device: 12345
    torch.accelerator.reset_peak_memory_stats = lambda device: None
    torch.Event = Event
    torch.get_float32_matmul_precision, torch.set_float32_matmul_precision = lambda: precision, set_precision


def empty(size, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return There(torch.empty(size, dtype=dtype, memory_format=memory_format, device="cpu"))


def empty_strided(size, stride, dtype=None, layout=None, device=None, pin_memory=None):
    return There(torch.empty_strided(size, stride, dtype=dtype, device="cpu"))


def copy_from(source, target, non_blocking=False):
    """Only torch.tensor gets here, which copies beside `__torch_dispatch__`."""
    target.value.copy_(source)
    return target


def linear(inputs, weight, bias=None):
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
    with torch._C._ExcludeDispatchKeyGuard(keys):
        cast = [each if each is None else each.to(torch.bfloat16) for each in (inputs, weight, bias)]
        return torch.nn.functional.linear(*cast)
