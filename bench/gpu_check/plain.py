"""A training or inference loop written by hand, without accelbench's engine, clock or Trainer, in a fresh process.

`python -m bench.gpu_check.plain` reads one cell per line as JSON, forks a process for each, and prints its seconds per
step. The framework is imported once. Only the network and its batch are made as in the cell: their weights and images
are equal.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from accelbench.engines.registry import SUBSTITUTING, host_spec
from accelbench.schema.cell import Cell
from accelbench.schema.serialize import load
from accelbench.schema.vocab import XLA, Device, Mode, Precision

WARMUP_STEPS, WARMUP_S = 10, 0.3
BLOCK_S, NUM_BLOCKS = 0.1, 8
LONGEST_S = 5.0
TIMEOUT_S = 60
DTYPES = {Precision.fp16: "float16", Precision.bf16: "bfloat16", Precision.fp64: "float64"}
AUTOCAST = {Precision.fp16_mixed: "float16", Precision.bf16_mixed: "bfloat16"}


class PlainFailedError(Exception):
    """A plain loop failed; the message is the last line of its error."""


class Loops:
    """The process that plain loops are forked from."""

    def __enter__(self) -> "Loops":
        command = [sys.executable, "-m", "bench.gpu_check.plain"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with self.process:  # waits for its end, and closes the pipes
            pass

    def step_s(self, cell: Cell) -> float:
        """The median seconds per step of a plain loop that does what `cell` does.

        Raises:
            PlainFailedError: it failed.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(cell.to_json()) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"error": "its process died"}')
        if "error" in answer:
            raise PlainFailedError(answer["error"])
        return float(answer["step_s"])


def main() -> None:
    """Answers each line of the input."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print must not mix with the answers
    for name in SUBSTITUTING:  # variables that override the precision or the threads, as for a cell
        os.environ.pop(name, None)
    import torch  # noqa: F401  # once, before any fork

    with contextlib.suppress(ImportError):
        import timm  # noqa: F401
    from accelbench.engines.lightning import zoo  # noqa: F401

    for line in sys.stdin:
        child = os.fork()
        if not child:
            _answer(line, answers)
        _, status = os.waitpid(child, 0)
        if status:
            answers.write(json.dumps({"error": f"its process ended with status {status}"}) + "\n")
            answers.flush()


def _answer(line: str, answers: Any) -> None:
    signal.alarm(TIMEOUT_S)
    try:
        cell = load(Cell, json.loads(line))
        os.environ.update(host_spec(cell).environment)
        answer: dict[str, Any] = {"step_s": measure(cell)}
    except BaseException as error:
        traceback.print_exc()
        answer = {"error": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
    os._exit(0)


def measure(cell: Cell) -> float:
    """Median seconds per step over blocks of about 0.1 s."""
    timed = _timed(cell.device)
    step = _training(cell) if cell.mode == Mode.train else _inference(cell)
    timed(step, WARMUP_STEPS)
    started, num = time.perf_counter(), 1
    while time.perf_counter() - started < WARMUP_S:
        seconds = timed(step, num)
        num = max(1, round(BLOCK_S / max(seconds, 1e-6)))
    blocks: list[float] = []
    started = time.perf_counter()
    while len(blocks) < NUM_BLOCKS and (len(blocks) < 3 or time.perf_counter() - started < LONGEST_S):
        blocks.append(timed(step, num))
    ordered = sorted(blocks)
    return (ordered[len(ordered) // 2] + ordered[(len(ordered) - 1) // 2]) / 2


def _timed(device: Device) -> Callable[[Callable[[], object], int], float]:
    """A function that runs a step some times, and returns the seconds per step."""
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


def _prepared(cell: Cell) -> tuple[Any, Any, Any, Any]:
    """The network, its images and labels on the device, and the context of a forward pass."""
    import torch

    from accelbench.engines.lightning import zoo
    from accelbench.engines.lightning.feed import RandomImages

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
    draw = RandomImages(model.input_shape, model.num_classes, cell.batch_size, dtype, labelled=True, seed=cell.seed)
    images, labels = (tensor.to(device) for tensor in draw())
    name = AUTOCAST.get(cell.precision)
    if name is None:
        return network, images, labels, contextlib.nullcontext
    computed = getattr(torch, name)
    cached = {"cache_enabled": False} if cell.device in XLA else {}
    return network, images, labels, lambda: torch.autocast(device.type, dtype=computed, **cached)


def _training(cell: Cell) -> Callable[[], object]:
    import torch
    from torch.nn import functional

    network, images, labels, context = _prepared(cell)
    if cell.model.optimizer == "sgd":
        optimizer: torch.optim.Optimizer = torch.optim.SGD(network.parameters(), lr=cell.model.learning_rate)
    else:
        optimizer = torch.optim.Adam(network.parameters(), lr=cell.model.learning_rate, eps=1e-7)
    scaler = torch.amp.GradScaler(images.device.type) if cell.precision == Precision.fp16_mixed else None

    def step() -> object:
        optimizer.zero_grad()
        with context():
            loss = functional.cross_entropy(network(images), labels)
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        return loss.detach()

    return step


def _inference(cell: Cell) -> Callable[[], object]:
    import torch

    network, images, _, context = _prepared(cell)
    quiet = torch.no_grad if cell.device in XLA else torch.inference_mode

    def step() -> object:
        with quiet(), context():
            return network(images)

    return step


if __name__ == "__main__":
    main()
