"""The Keras engine's samples/s compared with `model.fit` and a loop over `model(x)`, and the overhead of a cell.

As in bench/loop.py, each round is a block of accelbench's clock and as many steps of the reference, and the ratio
within a round is compared. `fit` is timed from its second batch: creating its data set would dominate a round.
"""

import os
import time
from collections.abc import Callable
from functools import partialmethod
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ |= {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from accelbench.data.arrays import Arrays, load_split  # noqa: E402
from accelbench.devices.cpu import usable_cores  # noqa: E402
from accelbench.engines.keras import engine, networks, task  # noqa: E402
from accelbench.lock import hold_measuring  # noqa: E402
from accelbench.measuring.runner import Runner  # noqa: E402
from accelbench.project import workplace  # noqa: E402
from accelbench.schema.cell import Cell, KerasSettings, Window  # noqa: E402
from accelbench.schema.vocab import Device, Engine, Mode, Precision, Protocol  # noqa: E402
from accelbench.schema.workload import DataSpec, ModelSpec
from bench import overhead  # noqa: E402
from bench.rounds import print_heading, print_row, run_both  # noqa: E402

NUM_RUNS = 4
TARGET_S = 0.6  # per cell; the first cell, which imports TensorFlow, takes 12 s
# At least sixteen rounds per run, whatever their noise; long ones, since each `fit` begins and ends an epoch.
WINDOW = Window(warmup_steps=3, warmup_s=0.3, measure_s=8.0, width=1e9, block_s=0.4, latency_s=0.0, latency_steps=1)
CASES = [("mlp", 32), ("mlp", 128), ("cnn", 64)]


def main() -> None:
    """Prints the median ratio and its 95 % interval for each case, then the overhead of a cell."""
    folder = workplace().root / "data" / "mnist"
    # As the engine does; the threads can't be changed after the reference has run.
    tf.config.threading.set_intra_op_parallelism_threads(usable_cores())
    tf.config.threading.set_inter_op_parallelism_threads(usable_cores())
    with hold_measuring(print):
        print_heading(10)
        for model, batch_size in CASES:
            for mode in Mode:
                ratios, rates = compare(model, batch_size, mode, folder)
                print_row(10, f"{model} b{batch_size}", mode, ratios, rates)
    overhead.measure("keras", TARGET_S)


def compare(model: str, batch_size: int, mode: Mode, folder: Path) -> tuple[list[float], list[float]]:
    """Accelbench's samples/s divided by the reference's, and the reference's samples/s, one value per round."""
    cell = Cell(
        suite="bench",
        engine=Engine.keras,
        device=Device.cpu,
        model=ModelSpec(name=model),
        data=DataSpec(name="mnist"),
        mode=mode,
        precision=Precision.fp32,
        batch_size=batch_size,
        protocol=Protocol.window,
        epochs=1,
        window=WINDOW,
        breakdown_s=0.0,
        keras=KerasSettings(),
    )
    arrays = load_split(folder, "train" if mode == Mode.train else "test")
    rounds: list[tuple[float, float]] = []
    for _ in range(NUM_RUNS):
        reference = plain_fit(cell, arrays) if mode == Mode.train else plain_calls(cell, arrays)
        mine: list[tuple[float, float]] = []
        with patch.object(Runner, "block", partialmethod(run_both, reference, mine)):
            engine.run(cell, folder)
        rounds += mine[1:]
        keras.backend.clear_session()
    rates = [cell.batch_size / plain_s for _, plain_s in rounds]
    return [plain_s / ours_s for ours_s, plain_s in rounds], rates


def network_of(cell: Cell) -> Any:
    """The cell's network, built again."""
    keras.utils.set_random_seed(cell.seed)
    return task.model_of(networks.build(cell.model, (28, 28), 10), "uint8")


class Stopwatch(keras.callbacks.Callback):
    """Times the batches of `fit` from the start of the second to the start of the last, which is not counted.

    What `fit` does once per epoch is left out. There is no callback at a batch's end: `fit` would wait for it.

    Args:
        num_steps: how many batches it counts.
    """

    def __init__(self, num_steps: int) -> None:
        super().__init__()
        self.last = 1 + num_steps

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        """Starts at the second batch, stops at the last."""
        if batch == 1:
            self.start = time.perf_counter()
        elif batch == self.last:
            self.seconds = time.perf_counter() - self.start


def plain_fit(cell: Cell, arrays: Arrays) -> Callable[[int], float]:
    """Returns a function that measures the seconds per step of a plain `model.fit`."""
    model = network_of(cell)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=loss, jit_compile=False)
    images, labels = np.asarray(arrays.images), np.asarray(arrays.labels)

    def run(num_steps: int) -> float:
        watch, num = Stopwatch(num_steps), (num_steps + 2) * cell.batch_size
        assert num <= len(images), "fewer steps would be run than are counted"
        model.fit(images[:num], labels[:num], batch_size=cell.batch_size, verbose=0, callbacks=[watch])
        return watch.seconds / num_steps

    run(2)
    return run


def plain_calls(cell: Cell, arrays: Arrays) -> Callable[[int], float]:
    """Returns a function that measures the seconds per step of a loop over `model(x)` in a separate graph."""
    model = network_of(cell)
    images = np.asarray(arrays.images)
    starts = cycle(range(0, len(images) - cell.batch_size + 1, cell.batch_size))
    call = tf.function(lambda batch: model(batch, training=False))

    def run(num_steps: int) -> float:
        start = time.perf_counter()
        for _ in range(num_steps):
            first = next(starts)
            call(tf.convert_to_tensor(images[first : first + cell.batch_size]))
        return (time.perf_counter() - start) / num_steps

    run(2)
    return run
