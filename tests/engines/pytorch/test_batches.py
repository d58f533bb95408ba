"""Cells with the user's networks and batches, in this process."""

import re

import pytest

import own_code
from accelbench.engines.pytorch import engine
from accelbench.errors import UnsupportedError, UserError
from accelbench.judging.row import summarise
from accelbench.judging.verdict import judge
from accelbench.schema.cell import DataSpec, ModelSpec, Options
from accelbench.schema.vocab import Device, Library, Mode, ModelOutput, Pipeline, Precision, Protocol, Status
from fakes import make_cell, make_record
from marks import IGNORES_LIGHTNINGS_WARNINGS, slow

pytestmark = IGNORES_LIGHTNINGS_WARNINGS
OWN, TWO, LOSS = "own_code", ("TwoInputs", "two_inputs"), "sum_of_squares"
TWO_STEPS = {"protocol": Protocol.steps, "warmup": 1, "steps": 2}


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
    measurement = engine.run(cell, tmp_path)
    assert judge(cell, measurement) is None
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
    ("asked", "changes"),
    [
        (("Pixels", "pictures"), {}),  # the target of an image is an image
        (("Pixels", "pictures"), {"options": Options(channels_last=True)}),
        (("TakesPair", "pairs"), {"precision": Precision.bf16}),  # a user's structure, not only of tensors
        (("Scaled", "two_inputs"), {"precision": Precision.bf16_mixed, "seed": 2**32 - 1}),
    ],
)
def test_what_users_bring_is_measured_without_a_warning(tmp_path, asked, changes):
    measurement = measured(tmp_path, *asked, **TWO_STEPS, **changes)
    assert (measurement.precision, measurement.warnings) == (changes.get("precision", "fp32"), [])


def test_samples_are_what_a_function_counts(tmp_path):
    cell = own_cell(*TWO, samples="own_code.one_sample", **TWO_STEPS)
    measurement = engine.run(cell, tmp_path)
    assert all(block.num_samples == block.num_steps for block in measurement.blocks)
    row = summarise(make_record(cell, measurement=measurement))
    plain = own_cell(*TWO, **TWO_STEPS)
    of_rows = summarise(make_record(plain, measurement=engine.run(plain, tmp_path)))
    assert row["flops_per_sample"] == of_rows["flops_per_sample"] * 4


@pytest.mark.parametrize(
    ("asked", "changes", "message"),
    [
        (("TwoInputs", "wrong_size"), {}, f"model.batch={OWN}.wrong_size: was called for 4 samples, but the first"),
        (("TwoInputs", "no_tensors"), {}, f"model.batch={OWN}.no_tensors: should return a tensor, a tuple or a"),
        (("TwoInputs", "tokens"), {}, f"model.batch={OWN}.tokens: has ids, mask, labels, but the network needs left"),
        (("Tokens", "tokens"), {"inputs": ("id",)}, f"model.batch={OWN}.tokens: has ids, mask, labels, but the netw"),
        (TWO, {"tokens": f"{OWN}.none"}, "model.tokens: should return a whole number above 0, not 0"),
        (
            TWO,
            {"args": {"widht": 3}},
            f"model.args: {OWN}.TwoInputs, with its model.args.NAME=VALUE: got an unexpected",
        ),
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


@pytest.mark.gpu
@pytest.mark.parametrize("pipeline", [Pipeline.host, Pipeline.device])
def test_on_a_gpu(tmp_path, pipeline):
    data = DataSpec(name="random", pipeline=pipeline)
    for loss in (None, "token_loss"):
        assert measured(tmp_path, "Tokens", "tokens", loss, device=Device.gpu, data=data).device == Device.gpu


def test_batches_may_have_other_counts_of_samples(tmp_path):
    own_code.COUNTS[:] = [8, 800] * 10
    cell = own_cell(*TWO, samples="own_code.varying", protocol=Protocol.steps, warmup=2, steps=8)
    measurement = engine.run(cell, tmp_path)
    assert judge(cell, measurement) is None
    assert sum(block.num_samples for block in measurement.blocks) == 4 * (8 + 800)


def test_what_a_network_compiles_itself_is_counted(tmp_path):
    measurement = engine.run(own_cell("Compiles", "two_inputs", **TWO_STEPS), tmp_path)
    assert measurement.num_compiles >= 3
    assert 0 < measurement.compile_s < 60
    assert any("times in the steady state" in warning for warning in measurement.warnings)
    plain = engine.run(own_cell(*TWO, **TWO_STEPS), tmp_path)
    assert (plain.num_compiles, plain.compile_s) == (None, None)


def test_the_check_of_weights_teaches_malloc_nothing(hosts, tmp_path):
    """Otherwise, later steps would have fewer page faults than steps of a script without the check."""
    log = tmp_path / "thresholds"
    cell = own_cell("Wide", "wide", "with_thresholds", batch_args={"log": str(log)})
    assert hosts.run(cell, tmp_path).status == Status.ok
    first, *others = [int(line) for line in log.read_text().split()]
    assert max(others) < 16 << 20
    assert first < max(others), "steps free blocks that are mapped: malloc learns from them"
