"""Small cells, and what engines measure of them. It imports no framework, since tests of Keras use it too."""

import os
import subprocess
import sys

from accelbench.judging.verdict import judge
from accelbench.schema.cell import DataSpec, Library, Mode, ModelOutput, ModelSpec, Pipeline, Protocol, Status, Target
from fakes import TESTS, make_cell

MLP = ModelSpec(name="mlp", args={"widths": [32, 32], "dropout": 0.0}, optimizer="sgd", learning_rate=0.05)
FIT = {"mode": Mode.train, "protocol": Protocol.fit, "model": MLP}
RANDOM = DataSpec(name="random", pipeline=Pipeline.host)
TWO_STEPS = {"protocol": Protocol.steps, "warmup": 1, "steps": 2}


def own_cell(target, batch, loss=None, **changes):
    model = {name: changes.pop(name) for name in list(changes) if name in ModelSpec.__dataclass_fields__}
    functions = {"network": target, "batch": batch, **({"loss": loss} if loss else {})}
    paths = {name: path if "." in path else f"own_code.{path}" for name, path in functions.items()}
    spec = ModelSpec(name=target.rpartition(".")[2], library=Library.custom, output=ModelOutput.any, **paths, **model)
    settings = {"model": spec, "data": RANDOM, "mode": Mode.train if loss else Mode.infer, "batch_size": 4}
    return make_cell(**{**settings, "breakdown_s": 0.0, **changes})


def cell_to_goal(model=MLP, target=None, **changes):
    target = Target(**{"accuracy": 0.9, **(target or {})})
    settings = {"mode": Mode.train, "protocol": Protocol.target, "model": model, "epochs": 5, "target": target}
    return make_cell(**{**settings, **changes})


def measured(engine, cell, *folders):
    """What `engine` measures in this process, and is accused of nothing."""
    measurement = engine.run(cell, *folders)
    assert judge(cell, measurement) is None
    return measurement


def ran(hosts, cell, *folders, **files):
    """What a cell in a process of its own measures, and is accused of nothing."""
    outcome = hosts.run(cell, *folders, **files)
    assert (outcome.status, outcome.reason) == (Status.ok, None), outcome.error
    return outcome.measurement


def printed(*words, **variables):
    """The lines that Python prints with these words and variables."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS), **variables}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout.splitlines()
