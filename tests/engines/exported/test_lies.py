"""Exported networks that compute something else than the network, or nothing: each must be found out."""

import pytest

from accelbench.engines.exported import run as exported_run
from accelbench.judging.asked import judge
from accelbench.measuring.output_check import STALE
from accelbench.schema.vocab import Engine, Pipeline, Protocol
from accelbench.schema.workload import DataSpec, ModelSpec
from engines.exported.test_run import SMALL, InTorch, marked
from engines.lightning.own.test_workload import own_cell
from fakes import make_cell
from marks import slow

ENGINES = [marked(Engine.openvino), marked(Engine.onnxruntime, slow=True), marked(Engine.aotinductor)]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_export_that_computes_something_else_makes_the_cell_invalid(hosts, tmp_path, engine):
    cell = own_cell("OtherWhenExported", "two_inputs", engine=engine, timeout_s=300.0)  # to compile C++ takes its time
    outcome = hosts.run(cell, tmp_path)
    assert outcome.reason.startswith("the output differs by "), outcome
    assert outcome.measurement.output_error > 0.1


def judged(digits, change, **changes):
    """Of an engine of which `change` makes the output: it gets a function that computes, and the inputs."""

    class Spoilt(InTorch):
        def __call__(self, call):
            return [change(lambda: super(Spoilt, self).__call__(call)[0], call.args[0])]

    cell = make_cell(**{"engine": Engine.openvino, "model": SMALL, "threads": 1, **changes})
    found = exported_run.run(Spoilt, cell, digits)
    return judge(cell, found), found


def kept(key):
    """Changes an engine so that it keeps its results by a key of its inputs."""
    results = {}

    def change(compute, images):
        if key(images) not in results:
            results[key(images)] = compute()
        return results[key(images)]

    return change


KEPT = "results of earlier inputs are kept"
FLOATS = DataSpec(name="random", pipeline=Pipeline.host)  # of whole numbers the task makes others at each call


@pytest.mark.parametrize(
    ("change", "changes", "why"),
    [
        (kept(lambda images: None), {}, STALE),
        (kept(lambda images: images.untyped_storage().data_ptr()), {"data": FLOATS}, ""),
        slow(kept(lambda images: hash(images.numpy().tobytes())), {"model": ModelSpec(name="mlp")}, KEPT),
    ],
    ids=["all", "by address", "by content"],
)
def test_an_output_that_is_not_computed_from_its_inputs_makes_the_cell_invalid(digits, change, changes, why):
    reason, found = judged(digits, change, **changes)
    assert why in reason
    if why == KEPT:
        assert found.output_error < 1e-4  # whatever is compared is right


def test_an_output_of_other_inputs_in_a_timed_step_makes_the_cell_invalid(digits, monkeypatch):
    runs = []
    honest = exported_run._Run.run_steps
    monkeypatch.setattr(exported_run._Run, "run_steps", lambda run: runs.append(run) or honest(run))

    def turned_while_timed(compute, images):
        return compute().flip(0) if runs[-1].resources is None else compute()

    reason, _ = judged(digits, turned_while_timed, protocol=Protocol.steps, warmup=1, steps=10)
    assert reason.startswith("in a timed step the output was not that of ")
