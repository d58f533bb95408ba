"""Measures a device's ceilings: the highest rates of arithmetic, memory, copies and launches.

Matrix products and convolutions are measured in several shapes, memory formats and libraries. The fastest of them is
the ceiling of arithmetic. One kernel is not enough: on one CPU, matmul reached 193 GFLOP/s in fp32, but a convolution
reached 487 GFLOP/s.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from accelbench.devices.cpu import has_fast_integers, usable_cores
from accelbench.devices.registry import look
from accelbench.engines.pytorch.backends import Backend, backend_for
from accelbench.engines.pytorch.precision import DTYPES, use_threads
from accelbench.schema.ceilings import TRUE_PRECISIONS, Ceilings
from accelbench.schema.vocab import Device, Precision

Call = Callable[[], object]
Best = Callable[[Call], float]
Prepared = Callable[[Tensor, Tensor], Call]  # (two tensors) -> the call that computes with them
# A computation whose rate may be the ceiling of arithmetic: its name, its floating-point operations (a multiply-add
# counts as two), and a function that allocates the tensors and returns the call that computes.
Kernel = tuple[str, int, Callable[[], Call]]

AMPERE = (8, 0)  # the first compute capability with TF32 and bfloat16 units
MAX_CALL_S = 0.1  # kernels that would take longer are skipped
MIN_REPEAT_S = 0.001  # least duration of a timed group of calls, so that waiting is a small part of the group
MIN_REPEATS = 3
REST_S = 0.001  # sleep before each repeat, after which the operating system prefers this process to others
NUM_ROUNDS = 2  # rounds, seconds apart, because another program may disturb one round
# Larger than the last-level cache of every known CPU and GPU.
MEMORY_BYTES = 512 << 20
COPY_BYTES = 256 << 20
NUM_LAUNCHES = 500  # fewer launches than a CUDA device queues before the host has to wait
# Type of device -> sides of square matrices; and (batch, channels, side) of the images of a padded 3x3 convolution.
# Devices that are not listed use the values of "cuda".
SIDES = {"cpu": (256, 512, 1024, 2048), "cuda": (1024, 2048, 4096, 8192, 16384), "xla": (512, 1024, 2048, 4096, 8192)}
IMAGES = {
    "cpu": ((1, 64, 28), (8, 64, 56), (8, 128, 28), (8, 256, 14)),
    "cuda": ((32, 64, 56), (64, 128, 56), (128, 256, 28), (256, 512, 14), (256, 256, 56)),
    "xla": ((1, 64, 28), (8, 128, 28), (64, 256, 28), (256, 256, 56)),
}


def run(device: Device, precisions: Iterable[Precision] = TRUE_PRECISIONS, *, seconds_each: float = 0.02) -> Ceilings:
    """Measures the ceilings of `device` in `precisions`. On a CPU, all cores compute.

    The device must be present. The process must do nothing else before or after this call. Precisions for which the
    device has no arithmetic units are skipped. Every round repeats each kernel for `seconds_each`. By default, a CPU
    with 2 cores takes 2 s plus 3 s per precision.
    """
    start = time.perf_counter()
    measured_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    backend, precisions = backend_for(device), list(precisions)
    is_xla = backend.torch_type == "xla"
    if not is_xla:
        use_threads(usable_cores())
    best = partial(_best, backend, seconds_each)
    rates: dict[Precision, dict[str, float]] = {word: {} for word in precisions if _has_units(backend, word)}
    with torch.no_grad():
        for _ in range(NUM_ROUNDS):
            for precision, kernels in rates.items():
                _note_rates(backend, precision, best, kernels)
        backend.prepare(allow_tf32=False)
        memory = _memory_bytes_per_s(backend, best)
        to_device, to_host = _copy_bytes_per_s(backend, best)
        launch_s = _launch_s(backend)
    return Ceilings(
        device=backend.ran_on(backend.torch_type),
        device_name=backend.device_name() or look(device).name,
        threads=None if is_xla else torch.get_num_threads(),
        flops_per_s={word: max(kernels.values()) for word, kernels in rates.items() if kernels},
        how={word: max(kernels, key=kernels.__getitem__) for word, kernels in rates.items() if kernels},
        probed=[word.value for word in precisions],
        memory_bytes_per_s=memory,
        host_to_device_bytes_per_s=to_device,
        device_to_host_bytes_per_s=to_host,
        launch_s=launch_s,
        seconds=time.perf_counter() - start,
        measured_at=measured_at,
    )


def _best(backend: Backend, seconds: float, call: Call) -> float:
    """Warms up, then times groups of calls for `seconds`. Returns the seconds per call in the fastest group."""

    def timed(num: int) -> float:
        start = time.perf_counter()
        for _ in range(num):
            result = call()  # XLA computes a result only if it is still referenced
            backend.end_step()
        backend.wait()
        elapsed = time.perf_counter() - start
        del result
        return elapsed

    timed(1)
    num = max(1, round(MIN_REPEAT_S / max(timed(1), 1e-6)))
    least = float("inf")
    repeats = 0
    end = time.perf_counter() + seconds
    while repeats < MIN_REPEATS or time.perf_counter() < end:
        time.sleep(REST_S)
        least = min(least, timed(num))
        repeats += 1
    return least / num


def _has_units(backend: Backend, precision: Precision) -> bool:
    kind = backend.torch_type
    if kind == "cuda":
        needs_ampere = precision in (Precision.tf32, Precision.bf16)
        return not needs_ampere or torch.cuda.get_device_capability() >= AMPERE
    if precision == Precision.int8:  # without these instructions, torch's kernels are slower than other libraries'
        return kind == "cpu" and has_fast_integers(look(Device.cpu))
    # Cells in fp16 do not run on XLA (see `grid.support`).
    return precision != Precision.tf32 and (kind, precision) != ("xla", Precision.fp16)


def _note_rates(backend: Backend, precision: Precision, best: Best, rates: dict[str, float]) -> None:
    """Measures kernels in this precision. Stores each kernel's highest rate (operations per second) in `rates`."""
    backend.prepare(allow_tf32=precision == Precision.tf32)
    torch.backends.cudnn.benchmark = True  # cuDNN searches for the fastest algorithm, which `prepare` has disabled
    for family in families(DTYPES[precision], backend.device()):
        rate = math.inf
        # The sizes rise. The loop ends if a kernel would take too long, or fails.
        for name, flops, make in family:
            if flops / rate > MAX_CALL_S:
                break
            try:
                rate = flops / best(make())
            # The kernel does not exist for this dtype or in this release, or memory is too small.
            except (RuntimeError, NotImplementedError, AttributeError, TypeError):
                break
            rates[name] = max(rate, rates.get(name, 0.0))


def _memory_bytes_per_s(backend: Backend, best: Best) -> float:
    """Measures a sum, a copy and an addition. Returns the most bytes that one of them reads and writes per second."""
    num = MEMORY_BYTES // 4
    source, target = (torch.ones(num, device=backend.device()) for _ in range(2))
    moved: list[tuple[int, Call]] = [(1, source.sum)]
    if backend.torch_type == "xla":  # no copy: XLA may let tensors share memory instead of copying
        moved += [(3, lambda: source + target)]
    else:
        moved += [(2, lambda: target.copy_(source)), (3, lambda: target.add_(source))]
    return max(streams * 4 * num / best(call) for streams, call in moved)


def _copy_bytes_per_s(backend: Backend, best: Best) -> tuple[float | None, float | None]:
    """Returns the bytes per second from pinned host memory to a CUDA GPU, and back. Both are None on other devices."""
    if backend.torch_type != "cuda":
        return None, None
    host = torch.ones(COPY_BYTES, dtype=torch.uint8, pin_memory=True)
    device = torch.empty_like(host, device=backend.device())
    to_device = best(lambda: device.copy_(host, non_blocking=True))
    to_host = best(lambda: host.copy_(device, non_blocking=True))
    return COPY_BYTES / to_device, COPY_BYTES / to_host


def _launch_s(backend: Backend) -> float:
    """Returns the mean seconds of a call that launches one operator, which adds 1 to a number.

    A call does not wait for the sum. On XLA, calls only record operators, so the time of launching all of them together
    is included.
    """
    number = torch.zeros(1, device=backend.device())
    least = float("inf")
    for _ in range(MIN_REPEATS + 7):
        backend.wait()
        start = time.perf_counter()
        for _ in range(NUM_LAUNCHES):
            number.add_(1.0)
        backend.end_step()
        least = min(least, time.perf_counter() - start)
    backend.wait()
    return least / NUM_LAUNCHES


def families(dtype: torch.dtype, device: torch.device) -> Iterator[list[Kernel]]:
    """Yields families of kernels for the device. A family is one kernel in several sizes, from small to large."""
    origin = "cpu" if device.type == "xla" else device  # on XLA, the random generator would be compiled for each shape

    def draw(shape: tuple[int, ...]) -> Tensor:
        if dtype == torch.int8:
            return torch.randint(-127, 128, shape, dtype=dtype, device=origin).to(device)
        return torch.randn(shape, device=origin).to(dtype).to(device)

    def make(prepared: Prepared, *shapes: tuple[int, ...]) -> Call:
        return prepared(*map(draw, shapes))

    sides = SIDES.get(device.type, SIDES["cuda"])
    for name, prepared in _products(dtype, device).items():
        yield [(f"{name} {side}", 2 * side**3, partial(make, prepared, (side, side), (side, side))) for side in sides]
    for name, layout in _layouts(dtype, device).items():
        family: list[Kernel] = []
        for num, channels, side in IMAGES.get(device.type, IMAGES["cuda"]):
            shapes = (num, channels, side, side), (channels, channels, 3, 3)
            flops = 2 * 9 * num * channels**2 * side**2
            called = partial(make, partial(_convolution, layout), *shapes)
            family.append((f"conv3x3 {num}x{channels}x{side}x{side} {name}", flops, called))
        yield family


def _products(dtype: torch.dtype, device: torch.device) -> dict[str, Prepared]:
    """Returns kernels on two square matrices."""
    if dtype == torch.int8:
        return {"oneDNN int8 linear": _int8_linear}
    products: dict[str, Prepared] = {"matmul": lambda left, right: partial(torch.matmul, left, right)}
    if device.type == "cpu":
        products["oneDNN linear"] = _onednn_linear  # for plain fp32 tensors, torch uses MKL
    if device.type == "cpu" and dtype == torch.float64:
        products["numpy"] = lambda left, right: partial(np.matmul, left.numpy(), right.numpy())
    return products


def _layouts(dtype: torch.dtype, device: torch.device) -> dict[str, torch.memory_format]:
    """Returns the memory formats of images in which convolutions are measured."""
    if dtype == torch.int8:
        return {}
    layouts = {"NCHW": torch.contiguous_format}
    if device.type != "xla":
        layouts["channels_last"] = torch.channels_last
    return layouts


def _onednn_linear(inputs: Tensor, weight: Tensor) -> Call:
    """Returns a linear layer on tensors in oneDNN's blocked layout."""
    return partial(torch._C._nn.mkldnn_linear, inputs.to_mkldnn(), weight.to_mkldnn(), None)


def _int8_linear(inputs: Tensor, weight: Tensor) -> Call:
    """Returns an int8 linear layer with a packed weight. It rounds the result to 8 bits."""
    packed = torch.ops.onednn.qlinear_prepack(weight, list(weight.shape))
    scales = torch.ones(len(weight))
    zeros = torch.zeros(len(weight), dtype=torch.int64)
    arguments = (inputs.view(torch.uint8), 0.1, 0, packed, scales, zeros, None)
    rounding = (0.1, 0, torch.uint8)  # the output's scale, zero point and dtype
    return partial(torch.ops.onednn.qlinear_pointwise, *arguments, *rounding, "none", [], "")


def _convolution(layout: torch.memory_format, inputs: Tensor, weight: Tensor) -> Call:
    laid_out = (tensor.contiguous(memory_format=layout) for tensor in (inputs, weight))
    return partial(functional.conv2d, *laid_out, padding=1)
