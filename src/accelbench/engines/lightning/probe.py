"""Measures a device's ceilings: the highest rates of arithmetic, memory, copies and launches.

The ceiling of arithmetic is the best of matrix products, linear layers and convolutions over shapes, layouts and
libraries. A single kernel is not enough: on one CPU fp32 reached 193 GFLOP/s with matmul and 487 with a convolution.
"""

import dataclasses
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime

import torch

from accelbench.devices.cpu import FAST_INTEGERS, has_any, usable_cores
from accelbench.devices.registry import look
from accelbench.engines.lightning.backends import Backend, backend_for
from accelbench.engines.lightning.global_state import use_threads
from accelbench.engines.lightning.kernels import Call, Kernel, families
from accelbench.engines.lightning.precision import DTYPES
from accelbench.schema.ceilings import TRUE_PRECISIONS, Ceilings
from accelbench.schema.vocab import Device, Precision

AMPERE = (8, 0)  # the first compute capability with TF32 and bfloat16 units

MAX_CALL_S = 0.1  # kernels that would take longer are skipped
MIN_REPEAT_S = 0.001  # calls are timed in groups of at least this length, so that waiting is a small part of it
MIN_REPEATS = 3
REST_S = 0.001  # sleep before each repeat: the operating system then prefers this process to others
NUM_ROUNDS = 2  # seconds apart: another program may disturb one round
NUM_FAST = 6  # the fastest kernels of the first round, which the others repeat
# The buffers together exceed the last-level cache of every CPU and GPU known.
MEMORY_BYTES = 512 << 20
COPY_BYTES = 256 << 20

NUM_LAUNCHES = 500  # fewer than the launches that a CUDA device queues before it makes the host wait


def run(device: Device, precisions: Iterable[Precision] = TRUE_PRECISIONS) -> Ceilings:
    """The ceilings of `device`, which must be present, in these true precisions; on a CPU with all cores."""
    backend = backend_for(device)
    if backend.torch_type != "xla":
        use_threads(usable_cores())
    found = probe(backend, precisions)
    return found if found.device_name else dataclasses.replace(found, device_name=look(device).name)


def probe(
    backend: Backend, precisions: Iterable[Precision] = TRUE_PRECISIONS, *, seconds_each: float = 0.02
) -> Ceilings:
    """The ceilings of the backend's device, measured in this process, which should do nothing else.

    Args:
        backend: of the device, which must be present. On a CPU, torch's current number of threads is used.
        precisions: not mixed; those that the device has no units for are left out of the result.
        seconds_each: how long each kernel is repeated after its warm-up, in each round. With the default a CPU of 2
            cores takes 2 s, and 3 s more for each precision.
    """
    start, measured_at = time.perf_counter(), datetime.now(UTC).isoformat(timespec="milliseconds")
    stopwatch = Stopwatch(backend, seconds_each)
    precisions = list(precisions)
    rates: dict[Precision, dict[str, float]] = {}
    benchmark = torch.backends.cudnn.benchmark
    threads = torch.get_num_threads()
    supported = [precision for precision in precisions if _has_units(backend, precision)]
    backend.prepare(allow_tf32=False)
    try:
        with torch.no_grad():
            for num_threads in _rounds(backend):
                torch.set_num_threads(num_threads)
                for precision in supported:
                    known = rates.setdefault(precision, {})
                    for name, rate in _rates(backend, precision, stopwatch, _fast(known)):
                        known[name] = max(rate, known.get(name, 0.0))
            torch.set_num_threads(threads)
            memory = _memory_bytes_per_s(backend, stopwatch)
            to_device, to_host = _copy_bytes_per_s(backend, stopwatch)
            launch_s = _launch_s(backend)
    finally:
        torch.backends.cudnn.benchmark = benchmark
        torch.set_num_threads(threads)
    return Ceilings(
        device=backend.ran_on(backend.torch_type),
        device_name=backend.device_name(),
        threads=None if backend.torch_type == "xla" else torch.get_num_threads(),
        flops_per_s={precision: max(known.values()) for precision, known in rates.items() if known},
        how={precision: max(known, key=lambda name: known[name]) for precision, known in rates.items() if known},
        probed=[word.value for word in precisions],
        memory_bytes_per_s=memory,
        host_to_device_bytes_per_s=to_device,
        device_to_host_bytes_per_s=to_host,
        launch_s=launch_s,
        seconds=time.perf_counter() - start,
        measured_at=measured_at,
    )


class Stopwatch:
    """Finds the shortest time that a call takes.

    Args:
        backend: the device.
        seconds: how long a call is repeated.
    """

    def __init__(self, backend: Backend, seconds: float) -> None:
        self.backend = backend
        self.seconds = seconds

    def best(self, call: Call) -> float:
        """Seconds per call in the fastest of several repeats, each waited for, after a warm-up."""
        self._time(call, 1)
        num = max(1, round(MIN_REPEAT_S / max(self._time(call, 1), 1e-6)))
        least, repeats, end = float("inf"), 0, time.perf_counter() + self.seconds
        while repeats < MIN_REPEATS or time.perf_counter() < end:
            time.sleep(REST_S)
            least = min(least, self._time(call, num))
            repeats += 1
        return least / num

    def _time(self, call: Call, num: int) -> float:
        start = time.perf_counter()
        for _ in range(num):
            kept = call()  # XLA computes only results that are still referenced
            self.backend.end_step()
        self.backend.wait()
        taken = time.perf_counter() - start
        del kept
        return taken


def _rounds(backend: Backend) -> list[int]:
    """The number of CPU threads in each round over all kernels.

    On a CPU, the last round uses one thread: if another process occupies a core, several threads, which wait for each
    other at the end of every kernel, are slower than one.
    """
    threads = torch.get_num_threads()
    alone = [1] if backend.torch_type == "cpu" and threads > 1 else []
    return [threads] * NUM_ROUNDS + alone


def _has_units(backend: Backend, precision: Precision) -> bool:
    if backend.torch_type == "xla" and precision == Precision.fp16:  # `grid.support` skips such cells
        return False
    if precision == Precision.int8:  # without these instructions torch has no kernel that shows what others reach
        return backend.torch_type == "cuda" or (
            backend.torch_type == "cpu" and has_any(look(Device.cpu), FAST_INTEGERS)
        )
    if backend.torch_type != "cuda":
        return precision != Precision.tf32
    return precision not in (Precision.tf32, Precision.bf16) or torch.cuda.get_device_capability() >= AMPERE


def _fast(known: Mapping[str, float]) -> Collection[str] | None:
    """The names of the fastest kernels so far; None: of all kernels."""
    return sorted(known, key=lambda name: known[name], reverse=True)[:NUM_FAST] or None


def _rates(
    backend: Backend, precision: Precision, stopwatch: Stopwatch, names: Collection[str] | None
) -> Iterator[tuple[str, float]]:
    """The names of the kernels that run in this precision, and their operations per second."""
    all_cores = torch.get_num_threads() == usable_cores()
    backend.prepare(allow_tf32=precision == Precision.tf32)
    torch.backends.cudnn.benchmark = True  # cuDNN tries its algorithms; `prepare` forbids it
    try:
        for family in families(DTYPES[precision], backend.device(), numpy_too=all_cores):
            yield from _rates_of(family, stopwatch, names)
    finally:
        backend.prepare(allow_tf32=False)


def _rates_of(
    family: Iterable[Kernel], stopwatch: Stopwatch, names: Collection[str] | None
) -> Iterator[tuple[str, float]]:
    """The rates of a family's kernels by rising size, until one would take too long or does not run."""
    rate = None
    for kernel in family:
        if names is not None and kernel.name not in names:
            continue
        if rate is not None and kernel.flops / rate > MAX_CALL_S:
            return
        try:
            rate = kernel.flops / stopwatch.best(kernel.make())
        # No such kernel for this dtype or in this release, or not enough memory.
        except (RuntimeError, NotImplementedError, AttributeError):
            return
        yield kernel.name, rate


def _memory_bytes_per_s(backend: Backend, stopwatch: Stopwatch) -> float:
    """Bytes per second, read and written, of the fastest of a copy, a sum and an addition in place."""
    num = MEMORY_BYTES // 4
    source, target = (torch.ones(num, device=backend.device()) for _ in range(2))
    moved: list[tuple[int, Call]] = [(1, source.sum)]
    if backend.torch_type == "xla":  # copying there may be free: tensors share memory
        moved += [(3, lambda: source + target)]
    else:
        moved += [(2, lambda: target.copy_(source)), (3, lambda: target.add_(source))]
    return max(streams * 4 * num / stopwatch.best(call) for streams, call in moved)


def _copy_bytes_per_s(backend: Backend, stopwatch: Stopwatch) -> tuple[float | None, float | None]:
    """Bytes per second from pinned host memory to the device, and back; None except on CUDA."""
    if backend.torch_type != "cuda":
        return None, None
    host = torch.ones(COPY_BYTES, dtype=torch.uint8, pin_memory=True)
    device = torch.empty_like(host, device=backend.device())
    to_device = stopwatch.best(lambda: device.copy_(host, non_blocking=True))
    to_host = stopwatch.best(lambda: host.copy_(device, non_blocking=True))
    return COPY_BYTES / to_device, COPY_BYTES / to_host


def _launch_s(backend: Backend) -> float:
    """Seconds per operator in a chain of operators on one number, launched without waiting.

    On the CPU this is the dispatch and the computation of one number; on XLA the recording of the operator and its
    share of the launch.
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
