"""LightningModules of the user, run by Lightning's Trainer in this process."""

import re

import pytest
import pytorch_lightning as pl
import torch
from lightning_utilities.core.rank_zero import WarningCache
from pytorch_lightning.loggers.logger import DummyLogger
from pytorch_lightning.loops.optimization.automatic import Closure
from pytorch_lightning.utilities.exceptions import MisconfigurationException

import own_modules
from accelbench.engines.lightning import engine
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.own.module_run import ModuleRun
from accelbench.errors import UnsupportedError, UserError
from accelbench.judging.asked import judge
from accelbench.schema.cell import TrainerSettings
from accelbench.schema.vocab import MODULE, Library, Mode, Phase, Precision, Protocol
from accelbench.schema.workload import DataSpec, ModelSpec
from fakes import make_cell

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*isinstance.treespec, LeafSpec.*:DeprecationWarning",
    "ignore:.*LeafSpec.*:FutureWarning",
    "ignore:.*GPU available but not used.*",
    "ignore::UserWarning:(pytorch_lightning|lightning)",
    "ignore:ReduceLROnPlateau conditioned on metric",
)
MISTAKES = (UserError, UnsupportedError, AttributeError, MisconfigurationException)
WARMUP, STEPS = 2, 5  # the blocks have STEPS steps, and as many single ones follow
LAST = WARMUP + 2 * STEPS + 2  # one more is looked at in between, and one afterwards


@pytest.fixture(autouse=True)
def _forget():
    own_modules.Lit.losses.clear()
    own_modules.Counts.steps.clear()


def lit_cell(target="Lit", data="Data", *, args=None, data_args=None, samples=None, trainer=None, **changes):
    spec = ModelSpec(
        name=target, library=Library.lightning, network=f"own_modules.{target}", args=args or {}, samples=samples
    )
    settings = {
        "model": spec,
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


def measured(tmp_path, *args, **changes):
    cell = lit_cell(*args, **changes)
    found = engine.run(cell, tmp_path)
    assert judge(cell, found) is None
    return found


def plain_fit(module, num, **settings):
    """What the user's own Trainer does in `num` batches."""
    pl.seed_everything(0, verbose=False)
    made = module()
    data = own_modules.Data(8)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=-1,
        limit_val_batches=0,
        logger=DummyLogger(),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **{"max_steps": num, **settings},
    )
    trainer.fit(made, datamodule=data)
    return made


class Kept(ModuleRun):
    """Keeps the weights before the steps that are only counted."""

    def _count(self):
        self.weights = {name: each.clone() for name, each in self.user_module.module.state_dict().items()}
        return super()._count()


def test_losses_and_weights_are_those_of_the_users_own_trainer(tmp_path):
    run = Kept(lit_cell(), tmp_path, Backend())
    found = run.measure()
    losses = list(own_modules.Lit.losses)
    own_modules.Lit.losses.clear()
    plain = plain_fit(own_modules.Lit, LAST)
    assert losses[:LAST] == own_modules.Lit.losses
    assert found.loss == pytest.approx(losses[LAST - 1])
    assert all(torch.equal(run.weights[name], each) for name, each in plain.state_dict().items())


def test_accumulation_and_clipping(tmp_path):
    measured(tmp_path, "Counts", trainer={"accumulate_grad_batches": 4, "gradient_clip_val": 0.01})
    steps = own_modules.Counts.steps
    # An epoch of 5 batches ends with a step too, as Lightning has it.
    assert [num for num, _ in steps[:4]] == [4, 5, 9, 10]
    assert all(norm == pytest.approx(0.01, rel=1e-3) for _, norm in steps)


def test_manual_optimisation_with_two_optimisers(tmp_path):
    run = Kept(lit_cell("Manual"), tmp_path, Backend())
    found = run.measure()
    assert found.loss is None
    assert any("training_step returns no loss" in note for note in found.notes)
    plain = plain_fit(own_modules.Manual, LAST + LAST // 5 * 2 + 1)  # steps of both optimisers
    assert all(torch.equal(run.weights[name], each) for name, each in plain.state_dict().items())


@pytest.mark.parametrize("precision", [Precision.bf16, Precision.bf16_mixed, Precision.fp64, Precision.fp16_mixed])
def test_every_precision_is_what_ran(tmp_path, precision):
    assert measured(tmp_path, precision=precision).precision == precision


@pytest.mark.parametrize("target", ["Lit", "Manual"])
def test_phases_work_and_operators(tmp_path, target):
    found = measured(tmp_path, target, breakdown_s=0.01)
    assert {Phase.data_wait, Phase.copy_in, Phase.forward, Phase.backward, Phase.optimizer, Phase.framework} <= {
        phase for phase, seconds in found.breakdown.phases_s.items() if sum(seconds) > 0
    }
    forward = 2 * 8 * (8 * 16 + 16 * 3)
    assert found.work.flops == 2 * forward + 2 * 8 * 16 * 3  # no gradient of the inputs
    assert found.operators


@pytest.mark.parametrize("warmup", [2, 3, 4])  # the step that is looked at has any place in an epoch of 8, 8 and 4
@pytest.mark.parametrize("data", ["Data", "Stream"])
def test_a_short_last_batch_counts_as_it_is_also_without_a_length(tmp_path, data, warmup):
    args = {"num": 20, "drop_last": False} if data == "Data" else {}
    found = measured(tmp_path, data=data, data_args=args, steps=6, warmup=warmup)
    assert sum(block.num_samples for block in found.blocks) in (36, 40, 44)  # the one looked at has 8 or 4
    assert found.num_steady_samples in (76, 80, 84)
    assert len(own_modules.Lit.losses) > warmup + 2 * 6 + 2  # two are looked at, one counted, and some replayed


def test_what_users_bring_is_measured_and_what_is_left_out_is_named(tmp_path):
    notes = measured(tmp_path, "Waits").notes
    assert {"callbacks of the module were left out", "nobody verified the data of own_modules.Data"} <= set(notes)
    assert measured(tmp_path, "OneCycle").loss is not None  # a schedule as long as the training
    found = measured(tmp_path, "OwnLoader", None)
    assert all(block.num_samples == 8 * block.num_steps for block in found.blocks)
    found = measured(tmp_path, "PredictsEncoded", "Encoded", mode=Mode.infer)  # a batch of the user's own type
    assert (found.warnings, found.work.flops) == ([], 2 * 8 * (8 * 16 + 16 * 3))


@pytest.mark.parametrize("precision", [Precision.fp32, Precision.bf16])
@pytest.mark.parametrize(
    ("target", "data", "told"),
    [
        ("Predicts", "Data", "inference runs predict_step, on batches of train_dataloader"),
        ("Lit", "LateSize", "inference runs forward, of a tuple with its first element, on batches of test_dataloader"),
    ],
)
def test_inference(tmp_path, precision, target, data, told):
    found = measured(tmp_path, target, data, mode=Mode.infer, precision=precision, breakdown_s=0.01)
    assert any(note.startswith(told) for note in found.notes)
    assert (found.warnings, found.loss) == ([], None)
    assert (found.output_error is None) == (precision == Precision.fp32)
    assert found.work.flops == 2 * 8 * (8 * 16 + 16 * 3)


TARGET, DATA = "model.target=own_modules", "data.target=own_modules"
WHOLE, LARGE = {"data_args": {"drop_last": False}}, {"batch_size": 64}


@pytest.mark.parametrize(
    ("target", "data", "changes", "told"),
    [
        ("Plain", "Data", {}, f"{TARGET}.Plain: should extend LightningModule"),
        ("Lit", "Plain", {}, f"{DATA}.Plain: should extend LightningDataModule"),
        ("Lit", "Data", {"args": {"depth": 2}}, "model.args: own_modules.Lit: got an unexpected keyword argument"),
        ("Lit", "Data", {"data_args": {"n": 2}}, "data.args: own_modules.Data: got an unexpected keyword argument"),
        ("Lit", "Data", {"data_args": {"batch_size": 2}}, "data.args.batch_size=2: use batch_size=2"),
        ("NoStep", "Data", {}, "No `training_step()` method defined"),  # Lightning's own error
        ("Lit", None, {}, f"{TARGET}.Lit: has no train_dataloader: define it, or use data.target"),
        ("Lit", "NoSize", {"batch_size": 4}, f"{DATA}.NoSize: a batch has 8 samples, not batch_size=4"),
        ("Lit", "Data", {**LARGE, **WHOLE}, f"{DATA}.Data: a batch has 40 samples"),
        ("Lit", "Data", LARGE, "Lightning's loop ended by itself: it had no batch"),
        ("Lit", "Data", {"samples": "own_code.one_sample"}, f"{DATA}.Data: a batch has 1 samples, not batch_size=8"),
        ("Stops", "Data", {}, "Lightning's loop ended by itself"),
        ("Skips", "Data", {}, f"{TARGET}.Skips: on_train_batch_start returned -1, which skips batches"),
        ("Lit", "Several", {}, f"{DATA}.Several: train_dataloader returns several loaders"),
        ("Lit", "Data", {"protocol": Protocol.fit}, "model=lightning: protocol=fit"),
        ("Fails", "Data", {}, "'Made' object has no attribute 'nowhere'"),  # the user's own error
    ],
)
def test_a_mistake_is_one_sentence(tmp_path, target, data, changes, told):
    with pytest.raises(MISTAKES, match=f"^{re.escape(told)}"):
        measured(tmp_path, target, data, **changes)


def test_samples_are_what_a_function_counts(tmp_path):
    assert measured(tmp_path, data="NoSize").num_steady_samples == 8 * 2 * STEPS  # the size that batches have anyway
    found = measured(tmp_path, data="NoSize", samples="own_modules.ten_times", batch_size=80)
    assert found.num_steady_samples == 80 * 2 * STEPS
    assert "80 samples in a batch whose first tensor has 8 rows, counted by own_modules.ten_times" in found.notes


def test_fp32_is_full_precision_whatever_the_module_sets(tmp_path):
    try:
        found = measured(tmp_path, "Sets")
        assert torch.get_float32_matmul_precision() == "highest"
        assert [note for note in found.notes if "its code set torch.set_float32_matmul_precision (medium)" in note]
        cell = lit_cell("Sets", args={"in_step": True})
        assert "changed torch.set_float32_matmul_precision from highest" in judge(cell, engine.run(cell, tmp_path))
    finally:
        torch.set_float32_matmul_precision("highest")


def test_steps_that_lightning_skips_are_no_training(tmp_path):
    cell = lit_cell("ReturnsNone", args={"batches": [3]})
    assert judge(cell, engine.run(cell, tmp_path)) == (
        f"training_step returned None in 2 of {2 * STEPS + 1} measured steps: Lightning trains nothing then"
    )
    measured(tmp_path, "ReturnsNone", args={"batches": []})
    with pytest.raises(UserError, match="own_modules.ReturnsNone: training_step returned None in 11 of 11 measured"):
        engine.run(lit_cell("ReturnsNone", args={"batches": [0, 1, 2, 3, 4]}), tmp_path)
    assert isinstance(Closure.warning_cache, WarningCache)


def test_an_output_may_have_one_row_if_samples_are_counted(tmp_path):
    found = measured(tmp_path, "Pools", samples="own_modules.num_labels", mode=Mode.infer)
    assert "the output" not in " ".join(found.warnings)
    cell = lit_cell("Pools", mode=Mode.infer)
    assert "one row, not one for each of the batch's 8" in judge(cell, engine.run(cell, tmp_path))
