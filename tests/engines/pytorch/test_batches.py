"""Cells with the user's networks and batches, in this process. `tests/honest` has more of them."""

import re
from dataclasses import replace

import pytest
import torch

import own_code
from accelbench.devices.cpu import usable_cores
from accelbench.engines.pytorch import engine
from accelbench.engines.pytorch.outputs import norm_of
from accelbench.engines.pytorch.structure import arrays_in, is_same, num_bytes
from accelbench.errors import UnsupportedError, UserError
from accelbench.judging.row import summarise
from accelbench.schema.cell import Device, Mode, ModelSpec, Options, Pipeline, Precision, Protocol
from engines import cells
from engines.cells import RANDOM, TWO_STEPS, own_cell
from fakes import make_cell, make_record
from marks import slow

PIXELS = {"in_channels": 3, "out_channels": 2, "kernel_size": 1}
OWN, TWO, LOSS = "own_code", ("TwoInputs", "two_inputs"), "sum_of_squares"


def measured(tmp_path, *asked, **changes):
    cell = own_cell(*asked, **changes)
    measurement = cells.measured(engine, cell, tmp_path)
    assert all(block.num_samples == cell.batch_size * block.num_steps for block in measurement.blocks)
    return measurement


@pytest.mark.parametrize(
    ("precision", "loss"),
    [("fp32", None), slow("bf16", None), slow("bf16", "token_loss"), ("bf16_mixed", "token_loss")],
)
def test_tokens_stay_whole_numbers_in_every_precision(tmp_path, precision, loss):
    more = {"precision": Precision(precision), "tokens": "own_code.num_tokens", **TWO_STEPS}
    measurement = measured(tmp_path, "Tokens", "tokens", loss, **more)
    assert (measurement.tokens_per_sample, measurement.warnings) == (8, [])
    assert measurement.work.flops > 2 * 4 * 8 * 16 * 100  # at least those of the last layer
    if precision == "fp32":  # arguments of the batch change the size
        long = measured(tmp_path, "Tokens", "tokens", loss, batch_args={"seq_len": 32}, **more)
        assert long.tokens_per_sample == 32
        assert long.work.flops > 3 * measurement.work.flops


@pytest.mark.parametrize(
    ("target", "batch", "changes"),
    [
        ("torch.nn.Conv2d", "honest.networks.images", {"args": PIXELS, "options": Options(channels_last=True)}),
        ("TakesPair", "pairs", {"precision": Precision.bf16}),  # a user's structure, not only of tensors
        (*TWO, {"precision": Precision.bf16_mixed, "seed": 2**32 - 1}),
        ("KeepsLargest", "two_inputs", {"precision": Precision.bf16}),  # most weights are in the asked format
    ],
)
def test_what_users_bring_is_measured_without_a_warning(tmp_path, target, batch, changes):
    measurement = measured(tmp_path, target, batch, **TWO_STEPS, **changes)
    assert (measurement.precision, measurement.warnings) == (changes.get("precision", "fp32"), [])


def test_samples_are_what_a_function_counts_and_may_differ_from_batch_to_batch(tmp_path):
    cell, plain = own_cell(*TWO, samples="own_code.one_sample", **TWO_STEPS), own_cell(*TWO, **TWO_STEPS)
    one, rows = engine.run(cell, tmp_path), engine.run(plain, tmp_path)
    assert all(block.num_samples == block.num_steps for block in one.blocks)
    of_one, of_rows = summarise(make_record(cell, measurement=one)), summarise(make_record(plain, measurement=rows))
    assert of_one["flops_per_sample"] == of_rows["flops_per_sample"] * 4
    own_code.COUNTS[:] = [8, 800] * 10
    cell = own_cell(*TWO, samples="own_code.varying", protocol=Protocol.steps, warmup=2, steps=8)
    assert sum(block.num_samples for block in cells.measured(engine, cell, tmp_path).blocks) == 4 * (8 + 800)


@pytest.mark.parametrize(
    ("asked", "changes", "message"),
    [
        (("TwoInputs", "no_tensors"), {}, f"model.batch={OWN}.no_tensors: should return a tensor, a tuple or a"),
        (("TwoInputs", "tokens"), {}, f"model.batch={OWN}.tokens: has ids, mask, labels, but the network needs left"),
        (("Tokens", "tokens"), {"inputs": ("id",)}, f"model.batch={OWN}.tokens: has ids, mask, labels, but the netw"),
        (TWO, {"tokens": f"{OWN}.none"}, "model.tokens: should return a whole number above 0, not 0"),
        (TWO, {"args": {"x": 3}}, f"model.args: {OWN}.TwoInputs, with its model.args.NAME=VALUE: got an unexpected"),
        ((*TWO, "detached_loss"), {}, f"model.loss={OWN}.detached_loss: should return a scalar tensor that depends"),
        ((*TWO, "one_sample"), {}, f"model.loss={OWN}.one_sample, called with (output, batch): too many positional"),
        ((*TWO, LOSS), {"optimizer": f"{OWN}.one_sample"}, f"model.optimizer={OWN}.one_sample, called with (paramet"),
        (TWO, {"batch_args": {"side": 3}}, f"model.batch={OWN}.two_inputs, called with (batch_size, side=3): got an"),
        (("Tokens", "tokens"), {"options": Options(channels_last=True)}, "channels_last=true: no tensor of the batch"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_setting(tmp_path, asked, changes, message):
    with pytest.raises((UserError, UnsupportedError), match=f"^{re.escape(message)}"):
        engine.run(own_cell(*asked, **changes), tmp_path)


@pytest.mark.parametrize(
    ("layer", "args", "mode", "gave"),
    [
        ("LSTM", {"input_size": 28, "hidden_size": 10}, Mode.infer, r"a tuple\. .* model.output=any"),
        ("Linear", {"in_features": 28, "out_features": 3}, Mode.train, r"\(32, 28, 3\)"),
    ],
)
def test_an_output_that_does_not_do_is_refused_with_the_setting_that_mends_it(digits, layer, args, mode, gave):
    model = ModelSpec(name="own", library="custom", network=f"torch.nn.{layer}", args=args)
    with pytest.raises(UserError, match=rf"own: its output should be logits \(batch, 10\), not {gave}"):
        engine.run(make_cell(model=model, mode=mode, breakdown_s=0.0), digits)


@pytest.mark.gpu
@pytest.mark.parametrize("data", [RANDOM, replace(RANDOM, pipeline=Pipeline.device)])
def test_on_a_gpu(tmp_path, data):
    for loss in (None, "token_loss"):
        assert measured(tmp_path, "Tokens", "tokens", loss, device=Device.gpu, data=data).device == Device.gpu


def test_what_a_network_compiles_itself_is_counted(tmp_path):
    measurement = engine.run(own_cell("Compiles", "two_inputs", **TWO_STEPS), tmp_path)
    assert measurement.num_compiles >= 3
    assert 0 < measurement.compile_s < 60
    assert any("times in the steady state" in warning for warning in measurement.warnings)


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_weights_with_other_signs_and_sparse_tensors_with_other_places_differ():
    assert norm_of(torch.tensor([1.0, -1.0, -1.0])) != norm_of(torch.tensor([1.0, 1.0, -1.0]))
    assert norm_of(torch.zeros(3)) == 0 != norm_of(torch.tensor([-1.0]))
    for layout in (torch.sparse_coo, torch.sparse_csr):
        one, other = torch.eye(3).to_sparse(layout=layout), torch.eye(3).flip(0).to_sparse(layout=layout)
        assert (is_same(one, one), is_same(one, other), num_bytes(one)) == (True, False, 12)
        assert str(arrays_in(one)) != str(arrays_in(other))
        assert norm_of(one) == norm_of(other)


# PyTorch's global settings, which the user's code may change.


@pytest.mark.usefixtures("state_as_before")
@pytest.mark.parametrize("what", ["newer", "cudnn", "threads", "deterministic", "dtype", "device"])
def test_what_a_network_sets_while_it_is_built_does_not_hold_while_it_is_measured(tmp_path, what):
    assert measured(tmp_path, "Sets", "two_inputs", args={"what": what}, **TWO_STEPS).threads == usable_cores()
    assert torch.backends.mkldnn.matmul.fp32_precision == torch.backends.cudnn.conv.fp32_precision == "ieee"
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.usefixtures("state_as_before")
@pytest.mark.parametrize(
    ("what", "doubt"),
    [
        ("threads", f"changed the number of threads from {usable_cores()} to {usable_cores() + 1}"),
        ("convolutions", "lets the device multiply fp32 numbers in a coarser format"),
    ],
)
def test_a_network_that_changes_the_number_of_threads_or_the_format_in_a_step_is_in_doubt(tmp_path, what, doubt):
    cell = own_cell("Sets", "two_inputs", args={"what": what, "when": "step"}, **TWO_STEPS)
    assert f"the user's code {doubt}" in engine.run(cell, tmp_path).warnings
