"""The engine on XLA's CPU devices through real hosts, against the same cells on the CPU."""

import dataclasses

import pytest

from accelbench.data.obtain import Obtained
from accelbench.data.prepare import describe
from accelbench.engines.lightning import engine
from accelbench.schema.vocab import Device, Mode, Pipeline, Precision, Protocol, Scaling, Status
from accelbench.schema.workload import DataSpec, ModelSpec
from fakes import SHORT, make_cell, needs

pytestmark = needs("torch_xla")

SGD = ModelSpec(name="mlp", args={"widths": [32, 32], "dropout": 0.0}, optimizer="sgd", learning_rate=0.05)


def fit_cell(**changes):
    """With a batch size that divides the training set: XLA drops a short last batch."""
    settings = {"mode": Mode.train, "protocol": Protocol.fit, "model": SGD, "epochs": 3, "batch_size": 50}
    return make_cell(**{**settings, **changes})


def xla(cell):
    return dataclasses.replace(cell, device=Device.xla_cpu, timeout_s=240)


@pytest.mark.slow
@pytest.mark.parametrize("precision", [Precision.fp32, Precision.fp64])
def test_xla_trains_to_the_cpus_losses_and_accuracy(hosts, digits, precision):
    cell = fit_cell(precision=precision)
    outcome = hosts.run(xla(cell), digits)
    assert outcome.status == Status.ok, outcome.error
    measured, expected = outcome.measurement, engine.run(cell, digits)
    assert measured.device == "xla_cpu"
    assert [e.loss for e in measured.epochs] == pytest.approx([e.loss for e in expected.epochs], rel=1e-4)
    assert measured.evaluation.num_samples == 90
    assert measured.evaluation.accuracy == pytest.approx(expected.evaluation.accuracy, abs=0.012)
    assert measured.evaluation.loss == pytest.approx(expected.evaluation.loss, rel=1e-3)
    assert measured.num_compiles > 0
    assert measured.compile_s > 0
    assert measured.warnings == []  # each epoch runs what the first one compiled
    assert measured.first_step_s > measured.epochs[-1].seconds / 6  # it compiles
    assert all(0 < epoch.data_s < epoch.seconds for epoch in measured.epochs)
    assert measured.operators == []


@pytest.mark.slow
def test_two_xla_devices_train_as_one_cpu_does(hosts, digits):
    cell = fit_cell()
    outcome = hosts.run(xla(dataclasses.replace(cell, devices=2)), digits)
    assert outcome.status == Status.ok, outcome.error
    measured, expected = outcome.measurement, engine.run(cell, digits)
    assert measured.num_devices == 2
    assert [e.loss for e in measured.epochs] == pytest.approx([e.loss for e in expected.epochs], rel=1e-4)
    assert measured.evaluation.num_samples == 90
    assert measured.evaluation.loss == pytest.approx(expected.evaluation.loss, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("mode", Mode)
def test_two_xla_devices_compile_nothing_in_the_steady_state(hosts, digits, mode):
    cell = xla(make_cell(model=SGD, mode=mode, devices=2, scaling=Scaling.weak, batch_size=64, window=SHORT))
    outcome = hosts.run(cell, digits)
    assert (outcome.status, outcome.reason) == (Status.ok, None), outcome.error
    measured = outcome.measurement
    assert (measured.num_devices, measured.warnings, measured.fallbacks) == (2, [], [])
    assert all(block.num_samples == 64 * block.num_steps for block in measured.blocks)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("precision", [Precision.bf16, pytest.param(Precision.bf16_mixed, marks=pytest.mark.slow)])
def test_xla_runs_what_was_asked_and_compiles_nothing_in_the_steady_state(hosts, digits, precision, mode):
    outcome = hosts.run(xla(make_cell(model=SGD, precision=precision, mode=mode, window=SHORT)), digits)
    assert (outcome.status, outcome.reason) == (Status.ok, None), outcome.error
    assert outcome.measurement.precision == precision
    assert outcome.measurement.warnings == []


def test_resident_images_are_not_copied_for_each_step_and_those_on_the_host_are(hosts, tmp_path):
    describe(Obtained(classes=(), source="random"), "random", tmp_path)
    model = ModelSpec(name="pets_cnn", input_shape=(3, 24, 24), num_classes=2)
    host, device = (
        hosts.run(xla(make_cell(model=model, data=DataSpec(name="random", pipeline=pipeline), batch_size=4)), tmp_path)
        for pipeline in (Pipeline.host, Pipeline.device)
    )
    assert (host.status, device.status) == (Status.ok, Status.ok), host.reason or device.reason
    assert len(host.measurement.copy_in_s) == len(host.measurement.latency_s)
    assert device.measurement.copy_in_s == []
