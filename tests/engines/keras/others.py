"""Functions for separate processes: Keras on JAX, because a process has one backend; TensorFlow on a divided CPU."""

import sys
import time

import numpy as np

from accelbench.engines.keras import engine, networks
from accelbench.engines.keras.backends import backend_for
from accelbench.judging.verdict import judge
from accelbench.schema.vocab import STEP_MODES, KerasBackend, Precision
from accelbench.schema.workload import ModelSpec
from engines.keras.cells import give, keras_cell, trained, twin_of, with_weights_of
from engines.keras.twins import CASES, images, num_classes

ON_JAX = {"backend": KerasBackend.jax, "jit_compile": True}


def on_jax(digits, twins):
    """Returns whether a step was waited for, the error of an output from its twin's, and measurements with verdicts."""
    import jax

    sys.modules["tensorflow"] = None  # as on a TPU without it; Keras would import it to seed it
    results, done = {}, []
    backend = backend_for(keras_cell(ON_JAX))

    def slow(values):
        time.sleep(0.2)
        done.append(1)
        return values

    backend.last = jax.jit(lambda x: jax.pure_callback(slow, x, x))(jax.numpy.ones(3))
    backend.wait()
    results["waited"] = bool(done)
    networks.set_policy(Precision.fp32)
    name, args, shape = CASES["cnn_in_colour"]
    network = networks.build(ModelSpec(name=name, args=args), shape, num_classes(name))
    give(network, twins, "cnn_in_colour")
    output = np.asarray(networks.model_of(network, "uint8")(images(shape), training=False))
    results["error"] = np.abs(output - twins["cnn_in_colour/output"]).max()

    def judged(cell):
        measured = engine.run(cell, digits)
        return judge(cell, measured), measured

    drawn, cell = networks.network_of, twin_of("sgd", ON_JAX)
    networks.network_of = with_weights_of(twins, "sgd")
    results["fit"] = judged(cell)
    networks.network_of = drawn
    for mode in STEP_MODES:
        results[mode] = judged(keras_cell(ON_JAX, mode=mode, precision=Precision.bf16, model=cell.model))
    return results


def on_two_devices(digits):
    """Returns the verdict, the measurement, the weights of each replica, and their devices."""
    cell = trained(devices=2)
    backend = backend_for(cell)
    run = engine.Run(cell, digits, backend)
    measured = run.measure()
    weights = [backend.strategy.experimental_local_results(weight.value) for weight in run.model.trainable_weights]
    devices = sorted({part.device for parts in weights for part in parts})
    return judge(cell, measured), measured, [[part.numpy() for part in parts] for parts in weights], devices
