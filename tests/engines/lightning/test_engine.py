"""The user's LightningModules in Lightning's Trainer, and plain networks, compared with engine=pytorch."""

import importlib.util
import re
from dataclasses import replace

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers.logger import DummyLogger

import own_modules
from accelbench.engines.lightning import engine
from accelbench.engines.lightning.engine import ModuleRun
from accelbench.engines.pytorch import engine as pytorch
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.ranks import Ranks
from accelbench.engines.registry import LIGHT_IMPORT
from accelbench.errors import UnsupportedError, UserError
from accelbench.judging.row import summarise
from accelbench.schema.cell import (
    MODULE,
    DataSpec,
    Device,
    Engine,
    Mode,
    ModelSpec,
    Phase,
    Precision,
    Protocol,
    Span,
    Target,
    TrainerSettings,
)
from engines import cells
from engines.cells import RANDOM, TWO_STEPS, cell_to_goal, own_cell, printed, ran
from fakes import make_cell, make_record, needs
from marks import slow

ITS_OWN = ("ignore:.*GPU available but not used.*", "ignore::UserWarning:(pytorch_lightning|lightning)")
ITS_OWN += ("ignore:ReduceLROnPlateau conditioned on metric",)
pytestmark = pytest.mark.filterwarnings(*ITS_OWN)
WARMUP, STEPS = 2, 10
ENDING = "callbacks that end the training or save files"
LAST = WARMUP + STEPS
FORWARD = 2 * 8 * (8 * 16 + 16 * 3)  # operations


@pytest.fixture(autouse=True)
def _forget():
    own_modules.Lit.losses.clear()
    own_modules.Counts.steps.clear()


def lit_cell(target="Lit", data="Data", *, data_args=None, samples=None, trainer=None, **changes):
    network = f"own_modules.{target}"
    settings = {
        "model": ModelSpec(name=target, library="lightning", network=network, samples=samples),
        "data": DataSpec(name=MODULE, target=data and f"own_modules.{data}", args=data_args or {}),
        "mode": Mode.train,
        "batch_size": 8,
        "protocol": Protocol.steps,
        "warmup": WARMUP,
        "steps": STEPS,
        "breakdown_s": 0.0,
        "trainer": TrainerSettings(**(trainer or {})),
    }
    return make_cell(**{**settings, **changes})


def measured(tmp_path, *asked, **changes):
    return cells.measured(engine, lit_cell(*asked, **changes), tmp_path)


class Kept(ModuleRun):
    """Keeps the weights before the steps that only count operations."""

    def _count(self):
        self.weights = {name: weight.clone() for name, weight in self.module.state_dict().items()}
        return (yield from super()._count())


@pytest.mark.parametrize(("target", "num_steps"), [("Lit", LAST), ("Manual", LAST + LAST // 5 * 2 + 1)])
def test_losses_and_weights_are_those_of_the_users_own_trainer(tmp_path, target, num_steps):
    """This also holds with manual optimisation and two optimisers: the steps of both count."""
    run = Kept(lit_cell(target), tmp_path, Backend(), Ranks(1))
    measurement = run.measure()
    losses = list(own_modules.Lit.losses)
    own_modules.Lit.losses.clear()
    pl.seed_everything(0, verbose=False)
    module = getattr(own_modules, target)()
    quiet = {f"enable_{name}": False for name in ("checkpointing", "progress_bar", "model_summary")}
    settings = {"accelerator": "cpu", "max_epochs": -1, "limit_val_batches": 0, "logger": DummyLogger()}
    pl.Trainer(**settings, **quiet, max_steps=num_steps).fit(module, datamodule=own_modules.Data(8))
    assert losses[:LAST] == own_modules.Lit.losses
    assert measurement.loss == (pytest.approx(losses[LAST - 1]) if target == "Lit" else None)
    assert all(torch.equal(run.weights[name], weight) for name, weight in module.state_dict().items())


def test_accumulation_and_clipping(tmp_path):
    measured(tmp_path, "Counts", trainer={"accumulate_grad_batches": 4, "gradient_clip_val": 0.01})
    steps = own_modules.Counts.steps
    # The scheduler also steps at the end of each epoch of 5 batches, as in Lightning.
    assert [num for num, _ in steps[:4]] == [4, 5, 9, 10]
    assert all(norm == pytest.approx(0.01, rel=1e-3) for _, norm in steps)
    (message,) = measured(tmp_path, "Schedules").warnings
    assert message == "the user's code set trainer.accumulate_grad_batches=2, but the cell asked for 1"


def test_phases_work_operators_and_precision(tmp_path):
    measurement = measured(tmp_path, "Manual", breakdown_s=0.01)
    phases = {phase for phase, seconds in measurement.breakdown.phases_s.items() if sum(seconds) > 0}
    assert phases == {Phase.data_wait, Phase.copy_in, Phase.forward, Phase.optimizer, Phase.framework}
    assert measurement.work.flops == 2 * FORWARD + 2 * 8 * 16 * 3  # no gradient of the inputs
    assert measurement.operators
    assert measured(tmp_path, precision="fp16_mixed").precision == "fp16_mixed"


def test_what_users_bring_is_measured_and_what_is_left_out_is_named(tmp_path):
    notes = measured(tmp_path, "Waits").notes
    assert {f"{ENDING} were left out: EarlyStopping", "nobody verified the data of own_modules.Data"} <= set(notes)
    measurement = measured(tmp_path, "OwnLoader", None)
    assert all(block.num_samples == 8 * block.num_steps for block in measurement.blocks)
    why = "UserError: a new module and the measured one have different weights: make all layers in __init__"
    assert any(why in note for note in measured(tmp_path, "LateHead", mode=Mode.infer).notes)  # not compared


@pytest.mark.parametrize(
    ("target", "data", "precision", "message", "error"),
    [
        ("Predicts", "Data", "fp32", "predict_step, on batches of train_dataloader", 1e-5),
        ("Lit", "LateSize", "bf16", "forward with the first element of a tuple, on batches of test_da", 0.1),
    ],
)
def test_inference(tmp_path, target, data, precision, message, error):
    measurement = measured(tmp_path, target, data, mode=Mode.infer, precision=precision)
    assert any(note.startswith(f"inference runs {message}") for note in measurement.notes)
    assert (measurement.warnings, measurement.loss, measurement.work.flops) == ([], None, FORWARD)
    assert measurement.output_error < error


TARGET, DATA = "model.target=own_modules", "data.target=own_modules"


@pytest.mark.parametrize(
    ("target", "data", "changes", "message"),
    [
        ("Data", "Data", {}, f"{TARGET}.Data: should extend LightningModule: if it returns a"),
        ("Lit", "Lit", {}, f"{DATA}.Lit: should extend LightningDataModule"),
        ("Lit", "Data", {"data_args": {"batch_size": 2}}, f"{DATA}.Data: its loader has batch_size=2, not 8."),
        ("Lit", None, {}, f"{TARGET}.Lit: has no train_dataloader: define one, or use data.target"),
        ("Lit", "Unsized", {"batch_size": 4}, f"{DATA}.Unsized: its loader has batch_size=8, not 4. The loader should"),
        ("Lit", "Unsized", {}, "Lightning's loop ended too early: it got no batch"),  # after its only epoch
        ("TakesIterator", "Data", {}, f"{TARGET}.TakesIterator: training_step(self, dataloader_iter) is not supported"),
        ("Stops", "Data", {}, "Lightning's loop ended too early"),
        ("Lit", "Several", {}, f"{DATA}.Several: train_dataloader returns several loaders: return one"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path, target, data, changes, message):
    with pytest.raises((UserError, UnsupportedError), match=f"^{re.escape(message)}"):
        measured(tmp_path, target, data, **changes)


def test_samples_are_what_a_function_counts_and_a_short_batch_has(tmp_path):
    for module in ("Lit", "Doubles"):  # two views of each sample
        data = {"num": 20, "drop_last": False}  # an epoch has 8, 8 and 4
        measurement = measured(tmp_path, module, data_args=data, steps=6)
        assert sum(block.num_samples for block in measurement.blocks) == measurement.num_steady_samples == 40
        assert measurement.warnings == []
    measurement = measured(tmp_path, data="NoSize")
    assert measurement.num_steady_samples == 8 * STEPS  # the usual size of batches
    row = summarise(make_record(lit_cell(epochs=10), measurement=measurement))  # the loader has 5 batches
    assert row["time_s"] == pytest.approx(10 * 5 * 8 / row["samples_per_s"])
    assert row["time_provenance"] == "estimated"
    measurement = measured(tmp_path, data="NoSize", samples="own_modules.ten_times", batch_size=80)
    assert (measurement.num_steady_samples, measurement.num_train_samples) == (80 * STEPS, 80 * 5)
    measurement = measured(tmp_path, data="NoSize", samples="own_modules.ten_times")
    assert measurement.warnings[0] == "most batches have 80 samples, not batch_size=8: as model.samples counts them"
    measurement = measured(tmp_path, "Doubles", samples="own_modules.num_labels")  # before the module's hooks
    assert (measurement.num_steady_samples, measurement.warnings) == (8 * STEPS, [])
    assert measured(tmp_path, "Pools", samples="own_modules.num_labels", mode=Mode.infer).warnings == []


@pytest.mark.usefixtures("state_as_before")
def test_fp32_is_full_precision_whatever_the_module_sets(tmp_path):
    measured(tmp_path, "Sets")
    assert torch.get_float32_matmul_precision() == "highest"
    (message,) = measured(tmp_path, "SetsLater").warnings
    assert message == "the user's code lets the device multiply fp32 numbers in a coarser format"


# Trainings to a target. An epoch has five batches.


def module_to_goal(module="Validates", epochs=4, **target):
    target = Target(**{"metric": "score", "value": 10.0, **target})
    return replace(lit_cell(module, protocol=Protocol.target, epochs=epochs), target=target)


@pytest.mark.parametrize(
    ("target", "values", "hit"),
    [
        ({}, [5.0, 10.0, 15.0], 1),
        ({"every": 0.4}, [2.0, 4.0, 6.0, 8.0, 10.0, 12.0], 4),
        ({"value": 30.0, "every_steps": 7}, [7.0, 14.0, 20.0], None),
        ({"definition": "fixed"}, [20.0], 0),
        ({"metric": "rest_nan"}, [None], None),
    ],
)
def test_its_own_validation_says_when_it_arrived(tmp_path, monkeypatch, target, values, hit):
    monkeypatch.setattr(own_modules.Data, "val_dataloader", own_modules.Validates.val_dataloader)
    training = cells.measured(engine, module_to_goal(**target), tmp_path).target
    assert [evaluation.value for evaluation in training.evaluations] == values
    assert (training.hit, training.tested, training.num_validation, training.deterministic) == (hit, None, None, False)
    assert training.evaluations[-1].num_samples == 8 * training.evaluations[-1].num_steps
    spans = [span.span for span in training.log]
    assert spans == [Span.start, Span.data, Span.build, *[Span.train, Span.evaluate] * len(values)]
    assert sum(span.seconds for span in training.log) >= 0.99 * training.log[-1].ended_s


@pytest.mark.parametrize(
    ("module", "epochs", "problem"),
    [
        ("Lit", 4, "target.metric=score: model.target=own_modules.Lit logs "),
        ("Validates", 4, "Lightning ran no validation, which protocol=target needs: define val"),
        ("Validates", 1, "Lightning ran no validation, which protocol=target needs: define val"),
    ],
)
def test_what_it_lacks_is_named(tmp_path, monkeypatch, module, epochs, problem):
    if module == "Lit":
        monkeypatch.setattr(own_modules.Data, "val_dataloader", own_modules.Validates.val_dataloader)
        monkeypatch.setattr(own_modules.Lit, "validation_step", lambda *_: None)
    with pytest.raises(UserError, match=problem):
        engine.run(module_to_goal(module, epochs), tmp_path)


# Plain networks in Lightning's loop.

MLP = replace(cells.MLP, args={"widths": [32]})  # with dropout
FIT = {"protocol": Protocol.fit, "epochs": 2}


def plain_cell(**changes):
    settings = {"engine": Engine.lightning, "model": MLP, "mode": Mode.train, "breakdown_s": 0.0}
    return make_cell(**{**settings, **TWO_STEPS, "steps": 10, **changes})


def measured_plain(folder, **changes):
    measurement = cells.measured(engine, plain_cell(**changes), folder)
    assert measurement.warnings == []
    return measurement


@pytest.mark.parametrize("precision", [slow(Precision.fp16_mixed), Precision.fp32, Precision.bf16_mixed])
def test_it_trains_as_the_bare_loop(digits, precision):
    measurement = measured_plain(digits, precision=precision)
    expected = pytorch.run(plain_cell(precision=precision), digits)
    assert (measurement.loss, measurement.precision) == (pytest.approx(expected.loss, rel=1e-6), precision)
    assert (measurement.work, measurement.num_steady_samples) == (expected.work, expected.num_steady_samples)


def test_whole_epochs_have_the_losses_and_the_evaluation_of_the_bare_loop(digits):
    measurement, expected = measured_plain(digits, **FIT), pytorch.run(plain_cell(**FIT), digits)
    for ours, theirs in zip(measurement.epochs, expected.epochs, strict=True):
        losses = [ours.loss, ours.evaluation.loss]
        assert losses == pytest.approx([theirs.loss, theirs.evaluation.loss], rel=1e-6)
        assert (ours.accuracy, ours.num_samples) == (theirs.accuracy, theirs.num_samples)
    assert measurement.evaluation.accuracy == expected.evaluation.accuracy
    assert measurement.first_step_s < measurement.epochs[0].seconds
    assert len(measured_plain(digits, mode=Mode.infer, **FIT).epochs) == len(measurement.epochs) + 1


def test_a_target_is_reached_where_the_bare_loop_reaches_it(digits):
    asked = cell_to_goal(target={"every": 0.5}, engine=Engine.lightning)
    measurement, expected = (module.run(asked, digits).target for module in (engine, pytorch))
    ours, theirs = ([evaluation.value for evaluation in each.evaluations] for each in (measurement, expected))
    assert (ours, measurement.hit, measurement.tested) == (theirs, expected.hit, expected.tested)
    assert [span.span for span in measurement.log] == [span.span for span in expected.log]


@pytest.mark.parametrize("mode", [Mode.train, Mode.infer])
def test_it_has_its_phases_and_its_output_is_compared(digits, mode):
    measurement = measured_plain(digits, mode=mode, breakdown_s=0.02, precision=Precision.bf16)
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
    one, two = (ran(hosts, plain_cell(model=cells.MLP, devices=num, **FIT), digits) for num in (1, 2))
    assert two.num_devices == 2
    losses = [[epoch.loss for epoch in measurement.epochs] for measurement in (one, two)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    window = plain_cell(model=cells.MLP, devices=2, protocol=Protocol.window, breakdown_s=0.02)
    assert ran(hosts, window, digits).breakdown.phases_s


@needs("torch_xla")
def test_xla_runs_what_was_asked(hosts, digits):
    asked = plain_cell(device=Device.xla_cpu, data=RANDOM, protocol=Protocol.window, timeout_s=240)
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
    assert printed("-c", CODE, PYTHONWARNINGS="ignore") == ["[]"]
