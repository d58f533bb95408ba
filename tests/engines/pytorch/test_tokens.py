"""Cells with networks of the library transformers, in this process."""

import re
import socket

import pytest
import torch

from accelbench.engines.pytorch import engine, zoo
from accelbench.engines.pytorch.own_batches import NO_LABEL, TokenMaker
from accelbench.engines.registry import host_spec
from accelbench.errors import UserError
from accelbench.schema.cell import Library, Mode, ModelSpec, Precision, Task
from engines import cells
from engines.cells import RANDOM, TWO_STEPS
from fakes import make_cell, needs
from marks import slow

pytestmark = needs("transformers")
SMALL = {"vocab_size": 90, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
ARGS = {
    "bert": SMALL,
    "llama": SMALL,
    "gpt2": {"vocab_size": 90, "n_embd": 32, "n_layer": 2, "n_head": 2, "bos_token_id": 1, "eos_token_id": 1},
    "t5": {"vocab_size": 90, "d_model": 32, "d_kv": 16, "num_layers": 2, "num_heads": 2, "d_ff": 64},
}
CLASSIFIES = Task.classification


def model(name="bert", task=Task.masked_lm, seq_len=16, **args):
    settings = {"args": {**ARGS.get(name, {}), **args}, "batch_args": {"seq_len": seq_len}, "optimizer": "adamw"}
    return ModelSpec(name=name, library=Library.transformers, task=task, **settings)


def cell(spec, **changes):
    settings = {"data": RANDOM, "mode": Mode.train, "batch_size": 4, "breakdown_s": 0.0}
    return make_cell(**{**settings, **TWO_STEPS, "model": spec, **changes})


def measured(tmp_path, spec, **changes):
    measurement = cells.measured(engine, cell(spec, **changes), tmp_path)
    assert (measurement.warnings, measurement.tokens_per_sample) == ([], 16)
    assert measurement.notes[0] == "transformers' attention: sdpa"
    assert all("in float32" in note for note in measurement.notes[1:])  # the positions of llama
    return measurement


@pytest.mark.parametrize(
    ("name", "task"),
    [("bert", Task.masked_lm), slow("gpt2", CLASSIFIES), slow("llama", Task.causal_lm), slow("t5", CLASSIFIES)],
)
def test_each_task_trains_and_infers(tmp_path, name, task):
    train, infer = (measured(tmp_path, model(name, task), mode=mode) for mode in (Mode.train, Mode.infer))
    if name != "t5":  # a shape in t5 depends on the number of end tokens
        # The backward pass costs as much as two forward passes, or a little less.
        assert 2.5 * infer.work.flops < train.work.flops < 3.2 * infer.work.flops
    assert train.loss < 5  # about ln(90)
    if name == "llama":
        # Products of two layers; scores of a query for half of the keys, and as many values added up; logits.
        of_layer = 4 * 32 * 32 + 3 * 32 * 64 + 2 * 8 * 32
        assert infer.work.flops == pytest.approx(2 * 4 * 16 * (2 * of_layer + 32 * 90), rel=0.01)
    if name == "bert":
        measured(tmp_path, model(), precision=Precision.bf16_mixed)  # token ids stay whole numbers


def test_nothing_reaches_for_the_network(tmp_path, monkeypatch):
    def refuse(*args):
        raise AssertionError("a network was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    zoo.build(model(), (), 0)
    assert host_spec(cell(model())).environment["HF_HUB_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in host_spec(make_cell()).environment


def test_batches_have_the_labels_of_their_task_and_no_special_ids():
    ends = {"pad_token_id": 5, "eos_token_id": [7, 8]}
    classes = TokenMaker(cell(model("llama", CLASSIFIES, **ends)), 50)()
    tokens = TokenMaker(cell(model("llama", Task.causal_lm, **ends)), 50)()
    masked = TokenMaker(cell(model()), 50)()
    for batch, special in ((classes, {5, 7, 8}), (tokens, {5, 7, 8}), (masked, {0})):
        assert not special & set(batch["input_ids"].unique().tolist())
        assert batch["attention_mask"].all()
    assert set(classes["labels"].tolist()) == {0, 1}
    assert torch.equal(tokens["labels"], tokens["input_ids"])
    labelled = masked["labels"] != NO_LABEL
    assert 0.1 < labelled.float().mean() < 0.3
    assert torch.equal(masked["labels"][labelled], masked["input_ids"][labelled])
    assert "labels" not in TokenMaker(cell(model(), mode=Mode.infer), 50)()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (model("bertt"), "model.name=bertt: transformers has no such network."),
        (model("vit"), "model.name=vit: its configuration has no vocab_size for token ids: use another model.name"),
        (model("gpt2"), "model.task=masked_lm: gpt2 can't do this task: use another model.task"),
        (model(num_hidden_layer=2), "model.args.num_hidden_layer: bert's configuration has no such argument"),
        (model("esm"), "model.args.vocab_size: esm has no default: set it to the number of token ids"),
        (model(seq_len=513), "model.batch_args.seq_len=513: bert accepts at most 512 tokens"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_setting(tmp_path, spec, message):
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        engine.run(cell(spec), tmp_path)
