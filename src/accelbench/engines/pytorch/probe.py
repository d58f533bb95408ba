"""Measures a device's ceilings: the highest rates of arithmetic, memory and launches.

Matrix products and convolutions are measured in several shapes, memory formats and libraries. The fastest of them is
the ceiling of arithmetic. One kernel is not enough: on one CPU, matmul reached 193 GFLOP/s in fp32, but a convolution
reached 487 GFLOP/s.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import prod

import torch
from torch import Tensor
from torch.nn import functional

from accelbench.devices.cpu import has_fast_integers, usable_cores
from accelbench.devices.registry import look
from accelbench.engines.pytorch.backends import Backend, backend_for
from accelbench.engines.pytorch.precision import DTYPES, use_threads
from accelbench.schema.ceilings import TRUE_PRECISIONS, Ceilings
from accelbench.schema.cell import Device, Precision

Call = Callable[[], object]
Best = Callable[[Call], float]  # a call -> its seconds
Kernel = Callable[[Tensor, Tensor], Call]  # two tensors -> the call that computes with them
Shapes = tuple[tuple[int, ...], tuple[int, ...]]  # of the two tensors

AMPERE = (8, 0)  # the first compute capability with TF32 and bfloat16 units
MAX_CALL_S = 0.05  # a kernel that takes longer is not tried in larger shapes
MIN_REPEAT_S = 0.001  # least duration of a timed group of calls, so that waiting is a small part of the group
MIN_REPEATS = 3
REST_S = 0.001  # sleep before each repeat, after which the operating system prefers this process to others
SECONDS_EACH = 0.03  # time in which a call is repeated
# Larger than the last-level cache of every known CPU and GPU.
MEMORY_BYTES = 512 << 20
NUM_LAUNCHES = 100
# Type of device -> sides of square matrices; and (batch, channels, side) of the images of a padded 3x3 convolution.
# Devices that are not listed use the values of "cuda".
SIDES = {
    "cpu": (256, 512, 1024, 2048),
    "cuda": (1024, 2048, 4096, 8192, 16384),
    "xla": (512, 1024, 2048, 4096, 8192),
}
IMAGES = {
    "cpu": ((1, 64, 28), (8, 64, 56), (8, 128, 28), (8, 256, 14)),
    "cuda": ((32, 64, 56), (64, 128, 56), (128, 256, 28), (256, 512, 14), (256, 256, 56)),
    "xla": ((1, 64, 28), (8, 128, 28), (64, 256, 28), (256, 256, 56)),
}


def run(device: Device, precisions: Iterable[Precision] = TRUE_PRECISIONS) -> Ceilings:
    """Measures the ceilings of `device` in `precisions`. On a CPU, all cores compute.

    The device must be present. The process must do nothing else before or after this call. Precisions for which the
    device has no arithmetic units are skipped.
    """
    backend, precisions = backend_for(device), list(precisions)
    is_xla = backend.torch_type == "xla"
    if not is_xla:
        use_threads(usable_cores())
    best = partial(_best, backend)
    with torch.no_grad():
        rates = {word: _rates(backend, word, best) for word in precisions if _has_units(backend, word)}
        backend.prepare(allow_tf32=False)
        memory = _memory_bytes_per_s(backend, best)
        launch_s = _launch_s(backend, best)
    return Ceilings(
        device=backend.ran_on(backend.torch_type),
        device_name=backend.device_name() or look(device).name,
        threads=None if is_xla else torch.get_num_threads(),
        flops_per_s={word: max(of_kernels) for word, of_kernels in rates.items() if of_kernels},
        probed=[word.value for word in precisions],
        memory_bytes_per_s=memory,
        launch_s=launch_s,
    )


def _best(backend: Backend, call: Call) -> float:
    """Warms up, then times groups of calls for `SECONDS_EACH`. Returns the seconds per call in the fastest group."""

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
    times_s: list[float] = []
    end = time.perf_counter() + SECONDS_EACH
    while len(times_s) < MIN_REPEATS or time.perf_counter() < end:
        time.sleep(REST_S)
        times_s.append(timed(num))
    return min(times_s) / num


def _has_units(backend: Backend, precision: Precision) -> bool:
    kind = backend.torch_type
    if kind == "cuda":
        needs_ampere = precision in (Precision.tf32, Precision.bf16)
        return not needs_ampere or torch.cuda.get_device_capability() >= AMPERE
    # Without these instructions, torch's kernels are slower than other libraries'.
    if precision == Precision.int8:
        return kind == "cpu" and has_fast_integers(look(Device.cpu))
    # Cells in fp16 do not run on XLA (see `grid.support`).
    return precision != Precision.tf32 and (kind, precision) != ("xla", Precision.fp16)


def _rates(backend: Backend, precision: Precision, best: Best) -> list[float]:
    """Returns the operations per second of each kernel in each of its shapes. A multiply-add counts as two."""
    backend.prepare(allow_tf32=precision == Precision.tf32)
    # cuDNN searches for the fastest algorithm, which `prepare` has disabled.
    torch.backends.cudnn.benchmark = True
    device = backend.device()
    dtype = DTYPES[precision]
    rates = []
    for kernel, sizes in kernels(dtype, device):
        for left, right in sizes:
            try:
                seconds = best(kernel(_drawn(left, dtype, device), _drawn(right, dtype, device)))
            # The kernel does not exist for this dtype or in this release, or memory is too small.
            except (RuntimeError, NotImplementedError, AttributeError, TypeError):
                break
            rates.append(2 * prod(left) * prod(right) / right[1] / seconds)
            if seconds > MAX_CALL_S:
                break
    return rates


def _drawn(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    # On XLA, the random generator would be compiled for each shape.
    origin = "cpu" if device.type == "xla" else device
    if dtype == torch.int8:
        return torch.randint(-127, 128, shape, dtype=dtype, device=origin).to(device)
    return torch.randn(shape, device=origin).to(dtype).to(device)


def _memory_bytes_per_s(backend: Backend, best: Best) -> float:
    """Measures a sum and an addition. Returns the most bytes that one of them reads and writes per second."""
    source, target = (torch.ones(MEMORY_BYTES // 4, device=backend.device()) for _ in range(2))
    return MEMORY_BYTES * max(1 / best(source.sum), 3 / best(lambda: target.add_(source)))


def _launch_s(backend: Backend, best: Best) -> float:
    """Returns the mean seconds of an operator that adds 1 to a number, in a chain of such operators."""
    number = torch.zeros(1, device=backend.device())

    def chain() -> Tensor:
        for _ in range(NUM_LAUNCHES):
            number.add_(1.0)
        return number

    return best(chain) / NUM_LAUNCHES


def kernels(dtype: torch.dtype, device: torch.device) -> Iterator[tuple[Kernel, list[Shapes]]]:
    """Yields each kernel for the device, and its shapes from small to large."""
    squares: list[Shapes] = [((side, side), (side, side)) for side in SIDES.get(device.type, SIDES["cuda"])]
    images: list[Shapes] = []
    for num, channels, side in IMAGES.get(device.type, IMAGES["cuda"]):
        images.append(((num, channels, side, side), (channels, channels, 3, 3)))
    if dtype == torch.int8:
        yield _int8_linear, squares
        return
    yield partial(partial, torch.matmul), squares
    if device.type == "cpu":
        yield _onednn_linear, squares  # for plain fp32 tensors, torch uses MKL
    yield partial(_convolution, torch.contiguous_format), images
    if device.type != "xla":
        yield partial(_convolution, torch.channels_last), images


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
