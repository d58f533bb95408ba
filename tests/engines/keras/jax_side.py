"""The engine on JAX, as a script: a process has one backend. It writes what it saw as JSON."""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

OUTPUTS = ("mlp", "cnn_in_colour", "lstm")


def main(digits, twins, out):
    import jax

    from accelbench.engines.keras import engine, networks
    from accelbench.engines.keras.backends import backend_for
    from accelbench.judging.asked import judge
    from accelbench.schema.vocab import KerasBackend, Mode, Precision
    from accelbench.schema.workload import ModelSpec
    from engines.keras.cells import give, keras_cell, twin_of, with_weights_of
    from engines.keras.twins import CASES, images, num_classes

    on_jax = {"backend": KerasBackend.jax, "jit_compile": True}
    found = {}

    done = []
    backend = backend_for(keras_cell(on_jax))

    def slow(values):
        time.sleep(0.2)
        done.append(1)
        return values

    backend.last = jax.jit(lambda x: jax.pure_callback(slow, x, x))(jax.numpy.ones(3))
    backend.wait()
    found["waited"] = bool(done)

    networks.set_policy(Precision.fp32)
    for case in OUTPUTS:
        name, args, shape = CASES[case]
        network = networks.build(ModelSpec(name=name, args=args), shape, num_classes(name))
        give(network, twins, case)
        output = np.asarray(networks.model_of(network, "uint8")(images(shape), training=False))
        found[case] = float(np.abs(output - twins[f"{case}/output"]).max())

    drawn = networks.network_of
    networks.network_of = with_weights_of(twins, "sgd")
    cell = twin_of("sgd", on_jax)
    measured = engine.run(cell, digits)
    found["fit"] = {
        "judged": judge(cell, measured),
        "losses": [epoch.loss for epoch in measured.epochs],
        "tested": [epoch.evaluation.loss for epoch in measured.epochs],
        "num_compiles": measured.num_compiles,
    }
    networks.network_of = drawn
    for mode in Mode:
        cell = keras_cell(on_jax, mode=mode, precision=Precision.bf16, model=cell.model)
        measured = engine.run(cell, digits)
        found[mode] = {
            "judged": judge(cell, measured),
            "warnings": measured.warnings,
            "output_error": measured.output_error,
            "num_compiles": measured.num_compiles,
            "loss": measured.loss,
            "seen": {check.promise: check.observed for check in measured.checks},
        }
    still = keras_cell(on_jax, mode=Mode.train, model=replace(cell.model, learning_rate=0.0))
    found["still"] = judge(still, engine.run(still, digits))
    out.write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), np.load(sys.argv[2]), Path(sys.argv[3]))
