"""The Keras engine's samples/s, compared with plain `model.fit` and a plain loop over `model(x)`; overhead per cell.

The method is that of bench/loop.py: in rounds of some tenths of a second, a block of our clock alternates with as many
steps of the reference; the result is the ratio within a round. `fit` is timed from its second batch on, because each
call makes a new data set, which would dominate a round.
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

from accelbench.data.arrays import (
    Arrays,
    load_split,  # noqa: E402
)
from accelbench.devices.cpu import usable_cores  # noqa: E402
from accelbench.engines.keras import (
    engine,
    networks,
    task,  # noqa: E402
)
from accelbench.lock import (
    hold,
    measuring_lock,  # noqa: E402
)
from accelbench.measuring import clock  # noqa: E402
from accelbench.project import project_root  # noqa: E402
from accelbench.schema.cell import (
    Cell,
    DataSpec,
    KerasSettings,
    ModelSpec,
    Window,  # noqa: E402
)
from accelbench.schema.vocab import (
    Device,
    Engine,
    Mode,
    Precision,
    Protocol,  # noqa: E402
)
from bench import overhead  # noqa: E402
from bench.rounds import print_heading, print_row, run_both  # noqa: E402

NUM_RUNS = 4
TARGET_S = 0.6  # overhead of a cell after the first; the first, with TensorFlow's import, may take 12 s
# At least sixteen rounds per run, however noisy. They are long, because `fit` begins and ends an epoch in each.
WINDOW = Window(warmup_steps=3, warmup_s=0.3, measure_s=8.0, width=1e9, block_s=0.4, latency_s=0.0, latency_steps=1)
CASES = [("mlp", 32), ("mlp", 128), ("cnn", 64)]


def main() -> None:
    """Prints the median ratio and its 95 % interval for each case, then the overhead per cell."""
    folder = project_root() / "data" / "mnist"
    # The same as the engine sets, which can't set it any more once the reference has run.
    tf.config.threading.set_intra_op_parallelism_threads(usable_cores())
    tf.config.threading.set_inter_op_parallelism_threads(usable_cores())
    with hold(measuring_lock(), "another measurement", print):
        print_heading(10)
        for model, batch_size in CASES:
            for mode in Mode:
                ratios, rates = compare(model, batch_size, mode, folder)
                print_row(10, f"{model} b{batch_size}", mode, ratios, rates)
    overhead.measure("keras", TARGET_S)


def compare(model: str, batch_size: int, mode: Mode, folder: Path) -> tuple[list[float], list[float]]:
    """Ratios of our speed to the reference's, and the reference's samples/s, one value per round."""
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
        with patch.object(clock.Runner, "block", partialmethod(run_both, reference, mine)):
            engine.run(cell, folder)
        rounds += mine[1:]
        keras.backend.clear_session()
    rates = [cell.batch_size / plain_s for _, plain_s in rounds]
    return [plain_s / ours_s for ours_s, plain_s in rounds], rates


def network_of(cell: Cell) -> Any:
    """A new network with the layers of the cell."""
    keras.utils.set_random_seed(cell.seed)
    return task.model_of(networks.build(cell.model, (28, 28), 10), "uint8")


class Stopwatch(keras.callbacks.Callback):
    """Measures the seconds from the start of the second batch to the start of the last.

    So it excludes what `fit` does once per epoch. It has no hook at a batch's end, because `fit` would then wait for
    the result of each step.

    Args:
        num_steps: number of batches in that time.
    """

    def __init__(self, num_steps: int) -> None:
        super().__init__()
        self.last = 1 + num_steps

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        """Starts the stopwatch at the second batch and stops it at the last."""
        if batch == 1:
            self.start = time.perf_counter()
        elif batch == self.last:
            self.seconds = time.perf_counter() - self.start


def plain_fit(cell: Cell, arrays: Arrays) -> Callable[[int], float]:
    """A function that runs n steps of `model.fit`, called in the usual way, and returns the seconds per step."""
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
    """A function that runs n steps of a loop over `model(x)` in a tf.function, and returns the seconds per step."""
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
