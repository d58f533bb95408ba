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
# With a batch size that divides the training set: XLA drops a short last batch.
FIT = make_cell(mode=Mode.train, protocol=Protocol.fit, model=SGD, epochs=3, batch_size=50)


def measured_on_xla(hosts, cell, folder):
    outcome = hosts.run(dataclasses.replace(cell, device=Device.xla_cpu, timeout_s=240), folder)
    assert (outcome.status, outcome.reason) == (Status.ok, None), outcome.error
    assert outcome.measurement.warnings == []  # each step runs what the first ones compiled
    return outcome.measurement


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "devices"), [(Precision.fp32, 1), (Precision.fp64, 1), (Precision.fp32, 2)])
def test_xla_trains_to_the_cpus_losses_and_accuracy(hosts, digits, precision, devices):
    cell = dataclasses.replace(FIT, precision=precision)
    measured = measured_on_xla(hosts, dataclasses.replace(cell, devices=devices), digits)
    expected = engine.run(cell, digits)
    assert (measured.device, measured.num_devices) == ("xla_cpu", devices)
    assert [e.loss for e in measured.epochs] == pytest.approx([e.loss for e in expected.epochs], rel=1e-4)
    assert measured.evaluation.num_samples == 90
    assert measured.evaluation.accuracy == pytest.approx(expected.evaluation.accuracy, abs=0.012)
    assert measured.evaluation.loss == pytest.approx(expected.evaluation.loss, rel=1e-3)
    assert measured.num_compiles > 0
    assert measured.compile_s > 0
    assert measured.first_step_s > measured.epochs[-1].seconds / 6  # it compiles
    assert all(0 < epoch.data_s < epoch.seconds for epoch in measured.epochs)
    assert measured.operators == []


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    ("precision", "devices"),
    [
        (Precision.bf16, 1),
        pytest.param(Precision.bf16_mixed, 1, marks=pytest.mark.slow),
        pytest.param(Precision.fp32, 2, marks=pytest.mark.slow),
    ],
)
def test_xla_runs_what_was_asked_and_compiles_nothing_in_the_steady_state(hosts, digits, precision, devices, mode):
    several = {"scaling": Scaling.weak, "devices": devices} if devices > 1 else {}
    cell = make_cell(model=SGD, precision=precision, mode=mode, window=SHORT, batch_size=64, **several)
    measured = measured_on_xla(hosts, cell, digits)
    assert (measured.precision, measured.num_devices, measured.fallbacks) == (precision, devices, [])
    assert all(block.num_samples == 64 * block.num_steps for block in measured.blocks)


def test_resident_images_are_not_copied_for_each_step_and_those_on_the_host_are(hosts, tmp_path):
    describe(Obtained(classes=(), source="random"), "random", tmp_path)
    model = ModelSpec(name="pets_cnn", input_shape=(3, 24, 24), num_classes=2)
    cells = [
        make_cell(model=model, data=DataSpec(name="random", pipeline=pipeline), batch_size=4)
        for pipeline in (Pipeline.host, Pipeline.device)
    ]
    host, device = (measured_on_xla(hosts, cell, tmp_path) for cell in cells)
    assert len(host.copy_in_s) == len(host.latency_s)
    assert device.copy_in_s == []
