"""Plain networks in Lightning's loop, compared with the same cells of engine=pytorch."""

from dataclasses import replace

import pytest

from accelbench.engines.lightning import engine
from accelbench.engines.pytorch import engine as pytorch
from accelbench.judging.verdict import judge
from accelbench.schema.cell import DataSpec, ModelSpec
from accelbench.schema.vocab import Device, Engine, Mode, Phase, Pipeline, Precision, Protocol, Status
from engines.lightning.test_user_modules import pytestmark  # noqa: F401
from engines.pytorch.test_batches import own_cell
from engines.pytorch.test_goal import cell_to_goal
from fakes import make_cell, needs
from marks import slow

MLP = ModelSpec(name="mlp", args={"widths": [32]}, optimizer="sgd", learning_rate=0.05)  # with dropout
STEPS = {"protocol": Protocol.steps, "warmup": 2, "steps": 10, "breakdown_s": 0.0}
FIT = {"protocol": Protocol.fit, "epochs": 2}


def cell(**changes):
    return make_cell(**{"engine": Engine.lightning, "model": MLP, "mode": Mode.train, **STEPS, **changes})


def measured(folder, **changes):
    asked = cell(**changes)
    measurement = engine.run(asked, folder)
    assert (judge(asked, measurement), measurement.warnings) == (None, [])
    return measurement


@pytest.mark.parametrize("precision", [slow(Precision.fp16_mixed), "fp32", "bf16_mixed"])
def test_it_trains_as_the_bare_loop(digits, precision):
    asked = cell(precision=Precision(precision))
    measurement, expected = measured(digits, precision=Precision(precision)), pytorch.run(asked, digits)
    assert (measurement.loss, measurement.precision) == (pytest.approx(expected.loss, rel=1e-6), precision)
    assert (measurement.work, measurement.num_steady_samples) == (expected.work, expected.num_steady_samples)


def test_whole_epochs_have_the_losses_and_the_evaluation_of_the_bare_loop(digits):
    measurement, expected = measured(digits, **FIT), pytorch.run(cell(**FIT), digits)
    for ours, theirs in zip(measurement.epochs, expected.epochs, strict=True):
        assert ours.loss == pytest.approx(theirs.loss, rel=1e-6)
        assert (ours.accuracy, ours.num_samples) == (theirs.accuracy, theirs.num_samples)
        assert ours.evaluation.loss == pytest.approx(theirs.evaluation.loss, rel=1e-6)
    assert measurement.evaluation.accuracy == expected.evaluation.accuracy
    assert measurement.first_step_s < measurement.epochs[0].seconds
    assert len(measured(digits, mode=Mode.infer, **FIT).epochs) == len(measurement.epochs) + 1


def test_a_target_is_reached_where_the_bare_loop_reaches_it(digits):
    asked = cell_to_goal(target={"every": 0.5}, engine=Engine.lightning)
    measurement, expected = (module.run(asked, digits).target for module in (engine, pytorch))
    assert [evaluation.value for evaluation in measurement.evaluations] == [
        evaluation.value for evaluation in expected.evaluations
    ]
    assert (measurement.hit, measurement.tested) == (expected.hit, expected.tested)
    assert [span.span for span in measurement.log] == [span.span for span in expected.log]


@pytest.mark.parametrize("mode", [Mode.train, Mode.infer])
def test_it_has_its_phases_and_its_output_is_compared(digits, mode):
    measurement = measured(digits, mode=mode, breakdown_s=0.02, precision=Precision.bf16)
    phases = {phase for phase, seconds in measurement.breakdown.phases_s.items() if sum(seconds) > 0}
    of_training = {Phase.backward, Phase.optimizer} if mode == Mode.train else set()
    assert {Phase.data_wait, Phase.copy_in, Phase.forward, Phase.framework} | of_training <= phases
    assert measurement.operators
    assert mode == Mode.train or measurement.output_error < 0.1


def test_batches_of_the_users_own(tmp_path):
    asked = own_cell("Tokens", "tokens", "token_loss", engine=Engine.lightning)
    assert judge(asked, engine.run(asked, tmp_path)) is None


def test_a_network_that_needs_gradients_infers(tmp_path):
    asked = own_cell("Tokens", "tokens", engine=Engine.lightning)
    asked = replace(asked, model=replace(asked.model, network="honest.networks.Pull", batch="honest.networks.vectors"))
    measurement = engine.run(asked, tmp_path)
    assert judge(asked, measurement) is None
    assert any("inference ran in" in note for note in measurement.notes)


def test_two_devices_train_as_one(hosts, digits):
    plain = replace(MLP, args={"widths": [32], "dropout": 0.0})
    one, two = (hosts.run(cell(model=plain, devices=num, **FIT), digits) for num in (1, 2))
    assert (two.status, two.measurement.num_devices) == (Status.ok, 2), two.error
    losses = [[epoch.loss for epoch in outcome.measurement.epochs] for outcome in (one, two)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    outcome = hosts.run(cell(model=plain, devices=2, protocol=Protocol.window, breakdown_s=0.02), digits)
    assert outcome.status == Status.ok, outcome.error
    assert outcome.measurement.breakdown.phases_s


@needs("torch_xla")
def test_xla_runs_what_was_asked(hosts, digits):
    data = DataSpec(name="random", pipeline=Pipeline.host)
    asked = cell(device=Device.xla_cpu, data=data, protocol=Protocol.window, timeout_s=240)
    outcome = hosts.run(asked, digits)
    assert (outcome.status, outcome.reason) == (Status.ok, None), outcome.error
    assert outcome.measurement.warnings == []
