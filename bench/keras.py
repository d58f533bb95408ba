"""The Keras engine's samples/s compared with `model.fit` and a loop over `model(x)`, and the overhead of a cell.

As in bench/loop.py, each round is a block of accelbench's clock and as many steps of the reference. The result is the
ratio within a round. `fit` is timed from its second batch, because creating its data set would dominate a round.
"""

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

os.environ |= {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from accelbench.data.arrays import Arrays  # noqa: E402
from accelbench.devices.cpu import usable_cores  # noqa: E402
from accelbench.engines.keras import engine, networks  # noqa: E402
from accelbench.lock import hold_measuring  # noqa: E402
from accelbench.schema.cell import Cell, Engine, KerasSettings, Mode, ModelSpec, Window  # noqa: E402  # noqa: E402
from bench import overhead  # noqa: E402
from bench.blocks import in_order, seconds_per_step  # noqa: E402
from bench.rounds import Reference, compare_all  # noqa: E402

NUM_RUNS = 4
TARGET_S = 0.6  # goal for the overhead of a cell; the first cell imports TensorFlow and takes 12 s
# Each run has at least sixteen rounds, also if they have little noise. They are long, because each `fit` begins and
# ends an epoch.
WINDOW = Window(warmup_steps=3, warmup_s=0.3, measure_s=8.0, width=1e9, block_s=0.4, latency_s=0.0, latency_steps=1)
CASES = {f"{name} b{size}": (ModelSpec(name=name), size) for name, size in (("mlp", 32), ("mlp", 128), ("cnn", 64))}


def main() -> None:
    """Prints the median ratio and its 95 % interval for each case, then the overhead of a cell."""
    # The engine sets the same threads. They can't be changed after the reference has run.
    tf.config.threading.set_intra_op_parallelism_threads(usable_cores())
    tf.config.threading.set_inter_op_parallelism_threads(usable_cores())
    with hold_measuring(print):
        settings = {"engine": Engine.keras, "keras": KerasSettings(), "window": WINDOW}
        compare_all(CASES, NUM_RUNS, settings, run, plain)
    overhead.measure("keras", TARGET_S)


def run(compared: Cell, folder: Path) -> None:
    """Measures the cell, and frees the memory of its network."""
    engine.run(compared, folder)
    keras.backend.clear_session()


def network_of(given: Cell) -> Any:
    """A new instance of the cell's network."""
    keras.utils.set_random_seed(given.seed)
    return networks.model_of(networks.build(given.model, (28, 28), 10), "uint8")


class Stopwatch(keras.callbacks.Callback):
    """Times the batches of `fit`, from the start of the second batch to the start of the last.

    So what `fit` does once per epoch is left out. There is no callback at the end of a batch: `fit` would wait for it.
    """

    def __init__(self, num_steps: int) -> None:
        super().__init__()
        self.last = 1 + num_steps

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        if batch == 1:
            self.start = time.perf_counter()
        elif batch == self.last:
            self.seconds = time.perf_counter() - self.start


def plain_fit(given: Cell, arrays: Arrays) -> Reference:
    """The seconds per step of a plain `model.fit`."""
    model = network_of(given)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=loss, jit_compile=False)
    images = np.asarray(arrays.images)
    labels = np.asarray(arrays.labels)

    def run(num_steps: int) -> float:
        watch = Stopwatch(num_steps)
        num = (num_steps + 2) * given.batch_size
        assert num <= len(images), "fewer steps would be run than are counted"
        model.fit(images[:num], labels[:num], batch_size=given.batch_size, verbose=0, callbacks=[watch])
        return watch.seconds / num_steps

    run(2)
    return run


def plain(given: Cell, arrays: Arrays) -> Reference:
    """For training: `plain_fit`. For inference: the seconds per step of a loop over `model(x)` in a separate graph."""
    if given.mode == Mode.train:
        return plain_fit(given, arrays)
    model = network_of(given)
    batches = in_order(np.asarray(arrays.images), given.batch_size)
    call = tf.function(lambda batch: model(batch, training=False))

    loop = partial(seconds_per_step, lambda: call(tf.convert_to_tensor(next(batches))))
    loop(2)
    return loop
