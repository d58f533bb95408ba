"""A training or inference loop written by hand, without accelbench's engine, clock or Trainer, in a fresh process.

The network and its batch are made as in the cell: their weights and images are equal. If the cell's batch is in host
memory, the loop copies it in each step, from pinned or from pageable memory.
"""

import contextlib
import json
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache, partial
from multiprocessing import forkserver
from statistics import median
from typing import Any
from unittest.mock import patch

from accelbench.engines.registry import SUBSTITUTING, host_spec
from accelbench.schema.cell import XLA, Cell, Device, Mode, Pipeline, Precision
from accelbench.schema.serialize import load, plain
from bench.gpu_check.findings import IS_SIMULATED

WARMUP_STEPS, WARMUP_S = (1, 0.05) if IS_SIMULATED else (10, 0.3)
BLOCK_S, NUM_BLOCKS = 0.1, 8
LONGEST_S = 0.1 if IS_SIMULATED else 5.0
TIMEOUT_S = 60
DTYPES = {Precision.fp16: "float16", Precision.bf16: "bfloat16", Precision.fp64: "float64"}
AUTOCAST = {Precision.fp16_mixed: "float16", Precision.bf16_mixed: "bfloat16"}


class PlainFailedError(Exception):
    """A plain loop failed. The message is the last line of its error."""


@cache
def _forks() -> Any:
    """A context of multiprocessing that forks processes from one with the framework imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torchvision", "timm", "accelbench.engines.pytorch.zoo"])
    with patch.dict(os.environ):
        for name in SUBSTITUTING:  # variables that override the precision or the threads, as for a cell
            os.environ.pop(name, None)
        forkserver.ensure_running()
    return context


def step_s(cell: Cell, *, pinned: bool = True) -> float:
    """The median seconds per step of a plain loop with the work of `cell`. Raises PlainFailedError."""
    return _asked("measure", cell, pinned)


def busiest(cell: Cell) -> list[str]:
    """The operators of a step, the longest first, by the time of their kernels in Kineto. Raises PlainFailedError."""
    return _asked("profile", cell, True)


def _asked(what: str, cell: Cell, pinned: bool) -> Any:
    with ProcessPoolExecutor(1, mp_context=_forks()) as pool:
        try:
            answer: Any = pool.submit(_answer, what, json.dumps(plain(cell)), pinned).result()
        except BrokenProcessPool:
            answer = "its process died"
    if isinstance(answer, str):
        raise PlainFailedError(answer)
    return answer


def _answer(what: str, cell_json: str, pinned: bool) -> Any:
    """Runs in its own process. Returns the result, or the error as text, because not every error can be pickled."""
    signal.alarm(TIMEOUT_S)
    try:
        cell = load(Cell, json.loads(cell_json))
        os.environ.update(host_spec(cell).environment)
        return {"measure": measure, "profile": profiled}[what](cell, pinned)
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def measure(cell: Cell, pinned: bool) -> float:
    """The median seconds per step, over blocks of about 0.1 s."""
    timed = _timed(cell.device)
    step = _step(cell, pinned)
    timed(step, WARMUP_STEPS)
    started = time.perf_counter()
    num = 1
    while time.perf_counter() - started < WARMUP_S:
        seconds = timed(step, num)
        num = max(1, round(BLOCK_S / max(seconds, 1e-6)))
    blocks: list[float] = []
    started = time.perf_counter()
    while len(blocks) < NUM_BLOCKS and (len(blocks) < 3 or time.perf_counter() - started < LONGEST_S):
        blocks.append(timed(step, num))
    return median(blocks)


def profiled(cell: Cell, pinned: bool) -> list[str]:
    """The operators of one step, sorted by the time of their kernels."""
    from torch.profiler import ProfilerActivity, profile

    step = _step(cell, pinned)
    for _ in range(WARMUP_STEPS):
        step()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        step()
    times = {each.key: each.self_device_time_total for each in found.key_averages() if each.key.startswith("aten::")}
    return sorted(times, key=times.__getitem__, reverse=True)


def _timed(device: Device) -> Callable[[Callable[[], object], int], float]:
    """A function that runs a step a number of times, and returns the seconds per step."""
    import torch

    def by_events(step: Callable[[], object], num: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(num):
            step()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1000 / num

    def by_host(step: Callable[[], object], num: int) -> float:
        start = time.perf_counter()
        for _ in range(num):
            kept = step()  # XLA computes only results that are still referenced
            if device in XLA:
                torch_xla.sync()
        if device in XLA:
            xm.wait_device_ops()
        del kept
        return (time.perf_counter() - start) / num

    if device in XLA:
        import torch_xla
        import torch_xla.core.xla_model as xm
    return by_events if device == Device.gpu else by_host


def _step(cell: Cell, pinned: bool) -> Callable[[], object]:
    import torch

    from accelbench.engines.pytorch import zoo
    from accelbench.engines.pytorch.feed import random_images

    torch.set_num_threads(len(os.sched_getaffinity(0)) if cell.threads is None else cell.threads)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = cell.precision == Precision.tf32
    torch.backends.cudnn.benchmark = False
    model = cell.model
    dtype = getattr(torch, DTYPES.get(cell.precision, "float32"))
    torch.manual_seed(cell.seed)
    if cell.device in XLA:
        import torch_xla.backends

        torch_xla.backends.set_mat_mul_precision("highest")
        device = torch_xla.device()
    else:
        device = torch.device("cuda" if cell.device == Device.gpu else "cpu")
    network = zoo.build(model, model.input_shape, model.num_classes).to(device, dtype).train(cell.mode == Mode.train)
    draw = random_images(model.input_shape, model.num_classes, cell.batch_size, dtype, labelled=True, seed=cell.seed)
    layout = torch.channels_last if cell.options.channels_last else torch.preserve_format
    network = network.to(memory_format=layout)
    batch = draw()
    on_host = cell.data.pipeline == Pipeline.host
    if on_host and pinned and cell.device == Device.gpu:
        batch = tuple(tensor.pin_memory() for tensor in batch)

    def put() -> Any:
        images, labels = (tensor.to(device, non_blocking=True) for tensor in batch)
        return images.to(memory_format=layout), labels

    resident = put()
    get = put if on_host else lambda: resident
    name = AUTOCAST.get(cell.precision)
    if name is None:
        context: Any = contextlib.nullcontext
    else:
        cached = {"cache_enabled": False} if cell.device in XLA else {}
        context = partial(torch.autocast, device.type, dtype=getattr(torch, name), **cached)
    if cell.mode == Mode.train:
        return _training(cell, network, get, device, context)
    quiet = torch.no_grad if cell.device in XLA else torch.inference_mode

    if cell.options.cuda_graphs:
        return _replayed(network, resident[0])

    def step() -> object:
        with quiet(), context():
            output = network(get()[0])
        return output.cpu() if on_host else output

    return step


def _replayed(network: Any, images: Any) -> Callable[[], object]:
    """Inference as one CUDA graph, recorded as in PyTorch's manual: warm-up on a side stream, static input."""
    import torch

    given = images.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.inference_mode():
        with torch.cuda.stream(side):
            for _ in range(3):
                network(given)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = network(given)

    def step() -> object:
        given.copy_(images)
        graph.replay()
        return output

    return step


def _training(cell: Cell, network: Any, get: Callable[[], Any], device: Any, context: Any) -> Callable[[], object]:
    import torch
    from torch.nn import functional

    kind = torch.optim.SGD if cell.model.optimizer == "sgd" else partial(torch.optim.Adam, eps=1e-7)
    optimizer = kind(network.parameters(), lr=cell.model.learning_rate)
    scaler = torch.amp.GradScaler(device.type, enabled=cell.precision == Precision.fp16_mixed)

    def step() -> object:
        images, labels = get()
        optimizer.zero_grad()
        with context():
            loss = functional.cross_entropy(network(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return step
