"""Cells of networks and batches of the user's, in this process."""

import re
from dataclasses import replace

import pytest
import torch

import own_code
from accelbench.engines.lightning import engine
from accelbench.engines.lightning.own.batch import count_note
from accelbench.errors import UnsupportedError, UserError
from accelbench.judging.asked import judge
from accelbench.judging.row import summarise, warnings_of
from accelbench.schema.cell import Options
from accelbench.schema.vocab import Device, Library, Mode, ModelOutput, Pipeline, Precision, Protocol
from accelbench.schema.workload import DataSpec, ModelSpec
from accelbench.sweep.terminal import outcome
from fakes import make_cell, make_record
from marks import IGNORES_LIGHTNINGS_WARNINGS

pytestmark = IGNORES_LIGHTNINGS_WARNINGS


def own_cell(target, batch, loss=None, **changes):
    model = {name: changes.pop(name) for name in list(changes) if name in ModelSpec.__dataclass_fields__}
    spec = ModelSpec(
        name=target,
        library=Library.custom,
        network=f"own_code.{target}",
        batch=f"own_code.{batch}",
        loss=loss and f"own_code.{loss}",
        output=ModelOutput.any,
        **model,
    )
    mode = Mode.train if loss else Mode.infer
    settings = {"model": spec, "data": DataSpec(name="random", pipeline=Pipeline.host), "mode": mode, "batch_size": 4}
    return make_cell(**{**settings, "breakdown_s": 0.0, **changes})


def measured(tmp_path, *args, **changes):
    cell = own_cell(*args, **changes)
    found = engine.run(cell, tmp_path)
    assert judge(cell, found) is None
    assert all(block.num_samples == cell.batch_size * block.num_steps for block in found.blocks)
    return found


def test_a_layer_that_ignores_autocast_is_not_in_mixed_precision(tmp_path):
    """PyTorch's transformer layers do, in inference on the CPU."""
    cell = own_cell("Tokens", "tokens", precision=Precision.bf16_mixed)
    assert judge(cell, engine.run(cell, tmp_path)) == "asked for precision bf16_mixed, but fp32 ran"


@pytest.mark.parametrize("precision", [Precision.fp32, Precision.bf16, Precision.bf16_mixed])
def test_tokens_stay_whole_numbers_in_every_precision(tmp_path, precision):
    more = {"precision": precision, "tokens": "own_code.num_tokens"}
    for loss in ("token_loss",) if precision == Precision.bf16_mixed else (None, "token_loss"):
        found = measured(tmp_path, "Tokens", "tokens", loss, **more)
        assert (found.tokens_per_sample, found.warnings) == (8, [])
        assert found.work.flops > 2 * 4 * 8 * 16 * 100  # at least the last layer's
        assert [note for note in found.notes if "labels" in note]
    if precision == Precision.fp32:  # arguments of the batch change it
        long = measured(tmp_path, "Tokens", "tokens", loss, batch_args={"seq_len": 32}, **more)
        assert long.tokens_per_sample == 32
        assert long.work.flops > 3 * found.work.flops


@pytest.mark.parametrize("pipeline", [Pipeline.host, Pipeline.device, Pipeline.fresh])
def test_two_inputs_and_a_mapping_as_output(tmp_path, pipeline):
    for loss in (None, "sum_of_squares"):
        data = DataSpec(name="random", pipeline=pipeline)
        found = measured(tmp_path, "TwoInputs", "two_inputs", loss, data=data)
        assert (found.tokens_per_sample, found.notes, found.warnings) == (None, [], [])


def test_one_step_is_that_of_a_plain_loop(tmp_path):
    cell = own_cell("TwoInputs", "two_inputs", "sum_of_squares", optimizer="sgd", protocol=Protocol.steps, warmup=1)
    found = engine.run(replace(cell, steps=1), tmp_path)
    torch.manual_seed(0)
    batches = [own_code.two_inputs(4) for _ in range(8)]
    torch.manual_seed(0)
    network = own_code.TwoInputs()
    optimizer = torch.optim.SGD(network.parameters(), lr=cell.model.learning_rate)
    losses = []
    for left, right in batches * 2:
        optimizer.zero_grad()
        loss = own_code.sum_of_squares(network(left, right), None)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert any(found.loss == pytest.approx(loss, rel=1e-6) for loss in losses)


def test_an_image_for_each_image_and_its_layout(tmp_path):
    for options in (Options(), Options(channels_last=True)):
        assert measured(tmp_path, "Pixels", "pictures", options=options).warnings == []


@pytest.mark.parametrize("precision", [Precision.fp32, Precision.bf16, Precision.bf16_mixed, Precision.fp64])
def test_a_network_without_layers_shows_its_precision(tmp_path, precision):
    found = measured(tmp_path, "Scaled", "two_inputs", inputs=(), precision=precision, seed=2**32 - 1)
    assert found.precision == precision


def test_a_frozen_backbone_is_not_trained_and_equal_batches_are_compared_in_another_order(tmp_path):
    assert measured(tmp_path, "Frozen", "two_inputs", "sum_of_squares").num_params == 16 * 2 + 2
    assert measured(tmp_path, "TwoInputs", "constant").warnings == []


def test_an_optimizer_of_ones_own(tmp_path):
    measured(tmp_path, "TwoInputs", "two_inputs", "sum_of_squares", optimizer="own_code.slow_adam")


def test_samples_are_what_a_function_counts(tmp_path):
    cell = own_cell("TwoInputs", "two_inputs", samples="own_code.one_sample")
    found = engine.run(cell, tmp_path)
    assert all(block.num_samples == block.num_steps for block in found.blocks)
    note = "1 sample in a batch of 4, counted by own_code.one_sample"
    assert note in found.notes
    record = make_record(cell, measurement=found)
    row = summarise(record)
    assert warnings_of(row)[0] == note
    assert note in outcome(record)
    plain = own_cell("TwoInputs", "two_inputs")
    of_rows = summarise(make_record(plain, measurement=engine.run(plain, tmp_path)))
    assert row["flops_per_sample"] == of_rows["flops_per_sample"] * 4


@pytest.mark.parametrize(
    ("samples", "num", "num_rows", "note"),
    [
        (None, 8, 8, None),
        ("ex.count", 8, 8, None),
        ("ex.count", 8, 0, None),  # nothing to compare with
        ("ex.ten", 80, 8, "80 samples in a batch of 8, counted by ex.ten"),
        ("ex.all", 80, 80, "80 samples in a batch of 8, counted by ex.all"),
        ("ex.graphs", 8, 1300, "8 samples in a batch whose first tensor has 1,300 rows, counted by ex.graphs"),
    ],
)
def test_samples_that_are_no_rows_are_a_note(samples, num, num_rows, note):
    model = own_cell("TwoInputs", "two_inputs", samples=samples).model
    assert count_note(model, num, 8, num_rows) == note


TWO, LOSS, OWN = ("TwoInputs", "two_inputs"), "sum_of_squares", "own_code"


@pytest.mark.parametrize(
    ("asked", "changes", "told"),
    [
        (("TwoInputs", "wrong_size"), {}, f"model.batch={OWN}.wrong_size: was asked for 4 samples, and its"),
        (("TwoInputs", "no_tensors"), {}, f"model.batch={OWN}.no_tensors: should return a tensor, a tuple or a"),
        (("TwoInputs", "tokens"), {}, f"model.batch={OWN}.tokens: TwoInputs.forward takes left, right, and the "),
        (("TwoInputs", "nowhere"), {}, f"model.batch={OWN}.nowhere: can't be imported"),
        (("Tokens", "tokens"), {"inputs": ("id",)}, "model.inputs: id is not in the batch, which has ids, mask, l"),
        (TWO, {"inputs": ("left",)}, "model.inputs=[left]: goes with a batch that is a mapping"),
        (TWO, {"tokens": f"{OWN}.none"}, "model.tokens: should return a whole num"),
        ((*TWO, "vector_loss"), {}, f"model.loss={OWN}.vector_loss: should return a scalar tensor, not one"),
        ((*TWO, "no_loss"), {}, f"model.loss={OWN}.no_loss: should return a scalar tensor, not a float"),
        ((*TWO, "detached_loss"), {}, f"model.loss={OWN}.detached_loss: its result depends on no"),
        ((*TWO, "one_sample"), {}, f"model.loss={OWN}.one_sample, called with (output, batch): too many positional"),
        ((*TWO, LOSS), {"optimizer": f"{OWN}.one_sample"}, f"model.optimizer={OWN}.one_sample, called with (paramet"),
        ((*TWO, LOSS), {"optimizer": f"{OWN}.no_optimizer"}, f"model.optimizer={OWN}.no_optimizer: should return a t"),
        (TWO, {"batch_args": {"side": 3}}, f"model.batch={OWN}.two_inputs, called with (batch_size, side=3): got an"),
        ((*TWO, LOSS), {"protocol": Protocol.fit}, "protocol=fit"),
        (("Tokens", "tokens"), {"options": Options(channels_last=True)}, "channels_last=true: no tensor of the batch"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_setting(tmp_path, asked, changes, told):
    with pytest.raises((UserError, UnsupportedError), match=f"^{re.escape(told)}"):
        measured(tmp_path, *asked, **changes)


@pytest.mark.slow
def test_compiled_frozen_and_on_several_devices(tmp_path):
    measured(tmp_path, "Tokens", "tokens", "token_loss", options=Options(compile=True))
    measured(tmp_path, "Pixels", "pictures", options=Options(compile=True, freeze=True))


@pytest.mark.gpu
@pytest.mark.parametrize("pipeline", [Pipeline.host, Pipeline.device])
def test_on_a_gpu(tmp_path, pipeline):
    data = DataSpec(name="random", pipeline=pipeline)
    for loss in (None, "token_loss"):
        found = measured(tmp_path, "Tokens", "tokens", loss, device=Device.gpu, data=data)
        assert found.device == Device.gpu


def test_batches_of_different_counts_are_refused(tmp_path):
    own_code.COUNTS[:] = [3, 4]
    with pytest.raises(UserError, match="^model.samples=own_code.varying: counted 3 samples in one batch and 4"):
        measured(tmp_path, "TwoInputs", "two_inputs", samples="own_code.varying")


def test_tokens_are_of_the_batches_that_were_fed(tmp_path):
    own_code.COUNTS[:] = [8] * 8 + [800] * 10_000  # eight batches for the feed, then others
    found = measured(tmp_path, "TwoInputs", "two_inputs", tokens="own_code.varying")
    assert found.tokens_per_sample == 2


def test_what_a_network_compiles_itself_is_counted(tmp_path):
    found = engine.run(own_cell("Compiles", "two_inputs", protocol=Protocol.steps, warmup=1, steps=2), tmp_path)
    assert found.num_compiles >= 5
    assert 0 < found.compile_s < 60
    assert any("times in the steady state" in warning for warning in found.warnings)
    plain = engine.run(own_cell("TwoInputs", "two_inputs", protocol=Protocol.steps, warmup=1, steps=2), tmp_path)
    assert (plain.num_compiles, plain.compile_s) == (None, None)


@pytest.mark.parametrize(
    ("samples", "groups"), [("own_code.one_sample", 1), ("own_code.two_samples", 2), ("own_code.two_samples", 1)]
)
def test_an_output_may_have_one_row_for_each_sample_that_a_function_counts(tmp_path, samples, groups):
    settings = {"samples": samples, "protocol": Protocol.steps, "warmup": 1, "steps": 2}
    found = engine.run(cell := own_cell("Pooled", "two_inputs", args={"groups": groups}, **settings), tmp_path)
    assert (judge(cell, found), found.warnings) == (None, [])
    stuck = own_cell("Pooled", "two_inputs", args={"groups": groups, "is_stuck": True}, **settings)
    assert "does not depend on the inputs" in judge(stuck, engine.run(stuck, tmp_path))
    without = own_cell("Pooled", "two_inputs", **{**settings, "samples": None})
    assert "one row, not one for each of the batch's 4 samples" in judge(without, engine.run(without, tmp_path))
