"""Plain networks in Lightning's loop, compared with the same cells of engine=pytorch."""

import importlib.util
from dataclasses import replace

import pytest

from accelbench.engines.lightning import engine
from accelbench.engines.pytorch import engine as pytorch
from accelbench.engines.registry import LIGHT_IMPORT
from accelbench.schema.cell import Device, Engine, Mode, Phase, Precision, Protocol
from engines import cells
from engines.cells import RANDOM, TWO_STEPS, cell_to_goal, own_cell, printed, ran
from engines.lightning.test_user_modules import pytestmark  # noqa: F401
from fakes import make_cell, needs
from marks import slow

MLP = replace(cells.MLP, args={"widths": [32]})  # with dropout
FIT = {"protocol": Protocol.fit, "epochs": 2}


def cell(**changes):
    settings = {"engine": Engine.lightning, "model": MLP, "mode": Mode.train, "breakdown_s": 0.0}
    return make_cell(**{**settings, **TWO_STEPS, "steps": 10, **changes})


def measured(folder, **changes):
    measurement = cells.measured(engine, cell(**changes), folder)
    assert measurement.warnings == []
    return measurement


@pytest.mark.parametrize("precision", [slow(Precision.fp16_mixed), Precision.fp32, Precision.bf16_mixed])
def test_it_trains_as_the_bare_loop(digits, precision):
    measurement, expected = measured(digits, precision=precision), pytorch.run(cell(precision=precision), digits)
    assert (measurement.loss, measurement.precision) == (pytest.approx(expected.loss, rel=1e-6), precision)
    assert (measurement.work, measurement.num_steady_samples) == (expected.work, expected.num_steady_samples)


def test_whole_epochs_have_the_losses_and_the_evaluation_of_the_bare_loop(digits):
    measurement, expected = measured(digits, **FIT), pytorch.run(cell(**FIT), digits)
    for ours, theirs in zip(measurement.epochs, expected.epochs, strict=True):
        losses = [ours.loss, ours.evaluation.loss]
        assert losses == pytest.approx([theirs.loss, theirs.evaluation.loss], rel=1e-6)
        assert (ours.accuracy, ours.num_samples) == (theirs.accuracy, theirs.num_samples)
    assert measurement.evaluation.accuracy == expected.evaluation.accuracy
    assert measurement.first_step_s < measurement.epochs[0].seconds
    assert len(measured(digits, mode=Mode.infer, **FIT).epochs) == len(measurement.epochs) + 1


def test_a_target_is_reached_where_the_bare_loop_reaches_it(digits):
    asked = cell_to_goal(target={"every": 0.5}, engine=Engine.lightning)
    measurement, expected = (module.run(asked, digits).target for module in (engine, pytorch))
    ours, theirs = ([evaluation.value for evaluation in each.evaluations] for each in (measurement, expected))
    assert (ours, measurement.hit, measurement.tested) == (theirs, expected.hit, expected.tested)
    assert [span.span for span in measurement.log] == [span.span for span in expected.log]


@pytest.mark.parametrize("mode", [Mode.train, Mode.infer])
def test_it_has_its_phases_and_its_output_is_compared(digits, mode):
    measurement = measured(digits, mode=mode, breakdown_s=0.02, precision=Precision.bf16)
    phases = {phase for phase, seconds in measurement.breakdown.phases_s.items() if sum(seconds) > 0}
    of_training = {Phase.backward, Phase.optimizer} if mode == Mode.train else set()
    assert {Phase.data_wait, Phase.copy_in, Phase.forward, Phase.framework} | of_training <= phases
    assert measurement.operators
    assert mode == Mode.train or measurement.output_error < 0.1


def test_batches_of_the_users_own_and_a_network_that_needs_gradients(tmp_path):
    cells.measured(engine, own_cell("Tokens", "tokens", "token_loss", engine=Engine.lightning), tmp_path)
    asked = own_cell("honest.networks.Pull", "honest.networks.vectors", engine=Engine.lightning)
    assert any("inference ran in" in note for note in cells.measured(engine, asked, tmp_path).notes)


def test_two_devices_train_as_one(hosts, digits):
    one, two = (ran(hosts, cell(model=cells.MLP, devices=num, **FIT), digits) for num in (1, 2))
    assert two.num_devices == 2
    losses = [[epoch.loss for epoch in measurement.epochs] for measurement in (one, two)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    window = cell(model=cells.MLP, devices=2, protocol=Protocol.window, breakdown_s=0.02)
    assert ran(hosts, window, digits).breakdown.phases_s


@needs("torch_xla")
def test_xla_runs_what_was_asked(hosts, digits):
    asked = cell(device=Device.xla_cpu, data=RANDOM, protocol=Protocol.window, timeout_s=240)
    assert ran(hosts, asked, digits).warnings == []


# What the host of cells imports, in processes of their own.

CODE = f"""
import sys, {LIGHT_IMPORT}, accelbench.engines.lightning.engine
print([name for name in ('torchvision', 'transformers', 'scipy.signal') if name in sys.modules])
import numpy  # user code may use the names that torchmetrics' `__init__` adds
assert numpy.Inf == numpy.inf
import torchmetrics, torchvision.models, transformers, scipy.signal
from pytorch_lightning.trainer.connectors.logger_connector import result
from torchmetrics import Accuracy
from torchmetrics.text import Perplexity
assert issubclass(Accuracy, result.Metric) and issubclass(Perplexity, torchmetrics.Metric)
assert torchmetrics.functional.accuracy and torchmetrics.__version__
"""


@pytest.mark.slow
def test_lightning_is_imported_without_it_and_code_that_needs_it_works():
    if missing := [name for name in ("transformers", "scipy") if importlib.util.find_spec(name) is None]:
        pytest.skip(f"not installed: {missing}")  # the wheel does not depend on it
    assert printed(CODE, PYTHONWARNINGS="ignore") == ["[]"]
