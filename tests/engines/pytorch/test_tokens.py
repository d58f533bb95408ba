"""Cells with networks of the library transformers, which also generate text, in this process."""

import re
import socket

import pytest
import torch

from accelbench.engines.pytorch import engine, zoo
from accelbench.engines.pytorch.flops import OF_GENERATION
from accelbench.engines.pytorch.own_batches import NO_LABEL, TokenMaker
from accelbench.engines.registry import host_spec
from accelbench.errors import UserError
from accelbench.schema.cell import Device, Generate, Library, Mode, ModelSpec, Options, Precision, Task
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
PROMPT, NEW, BATCH, LAYERS, WIDTH = 6, 5, 3, 2, 32  # of generated text


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


def test_nothing_reaches_for_the_network(monkeypatch):
    for place, name in ((socket.socket, "connect"), (socket, "getaddrinfo")):
        monkeypatch.setattr(place, name, lambda *_: pytest.fail("a network was asked for"))
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


def asked(name="gpt2", num_tokens=PROMPT, **changes):
    generate = Generate(prompt_tokens=num_tokens, new_tokens=NEW)
    return cell(model(name, Task.causal_lm), mode=Mode.generate, generate=generate, batch_size=BATCH, **changes)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (cell(model("bertt")), "model.name=bertt: transformers has no such network."),
        (
            cell(model("vit")),
            "model.name=vit: its configuration has no vocab_size for token ids: use another",
        ),
        (cell(model("gpt2")), "model.task=masked_lm: gpt2 can't do this task: use another model.task"),
        (cell(model(num_hidden_layer=2)), "model.args.num_hidden_layer: bert's configuration has no such argument"),
        (cell(model("esm")), "model.args.vocab_size: esm has no default: set it to the number of token ids"),
        (cell(model(seq_len=513)), "model.batch_args.seq_len=513: bert accepts at most 512 tokens"),
        slow(asked("mamba"), "model.name=mamba: mode=generate needs a network with a key-value cache: use"),
        (
            asked("gpt2", 1020),
            "generate.prompt_tokens and generate.new_tokens: together 1025: gpt2 accepts at most",
        ),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_setting(tmp_path, asked, message):
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        engine.run(asked, tmp_path)


# Generation of text.


def generated(tmp_path, *words, num_bytes, **changes):
    measurement = cells.measured(engine, asked(*words, steps=3, **changes), tmp_path)
    assert (measurement.tokens_per_sample, measurement.work.uncounted) == (NEW, [OF_GENERATION])
    generation = measurement.generation
    assert [len(times_s) for times_s in generation.decode_s] == [NEW - 1] * len(measurement.latency_s) == [NEW - 1] * 3
    # The last token is never fed to the network.
    assert generation.cache_bytes == LAYERS * 2 * BATCH * WIDTH * (PROMPT + NEW - 1) * num_bytes
    parts = zip(measurement.latency_s, generation.prefill_s, generation.decode_s, strict=True)
    for whole_s, first_s, others_s in parts:
        assert 0.5 * whole_s < first_s + sum(others_s) <= whole_s
    return measurement


@pytest.mark.parametrize(
    ("name", "precision", "num_bytes"),
    [
        slow("gpt2", Precision.fp32, 4),
        ("gpt2", Precision.bf16, 2),
        slow("llama", Precision.bf16_mixed, 4),  # its keys are rotated in fp32, and the cache has their dtype
        slow("llama", Precision.bf16, 2),
        slow("bert", Precision.fp32, 4),
    ],
)
def test_each_token_has_its_time_and_the_cache_its_bytes(tmp_path, name, precision, num_bytes):
    measurement = generated(tmp_path, name, precision=precision, num_bytes=num_bytes)
    assert all("in float32" in note for note in measurement.notes[1:])
    assert measurement.output_error < (1e-5 if precision == Precision.fp32 else 0.1)


@pytest.mark.slow
@pytest.mark.timeout(900)  # compilation is slow on busy cores
def test_a_compiled_network_has_a_static_cache(tmp_path):
    measurement = generated(tmp_path, "llama", options=Options(compile=True), timeout_s=900.0, num_bytes=4)
    assert (measurement.num_compiles, measurement.warnings) == (1, [])  # only the decode step is compiled
    assert measurement.first_step_s > 10 * measurement.latency_s[0]


def test_fed_the_same_tokens_a_network_that_forgets_some_gives_other_logits(tmp_path, monkeypatch):
    build = zoo.build

    def forgets(network, args, named):
        cache = named.get("past_key_values", named.get("cache"))
        if cache is not None and cache.get_seq_length() > PROMPT:
            cache.crop(-1)

    def built(*args):
        network = build(*args)
        network.register_forward_pre_hook(forgets, with_kwargs=True)
        return network

    monkeypatch.setattr(zoo, "build", built)
    (defect,) = engine.run(asked(steps=2), tmp_path).defects
    assert re.search("differs by .* % from the output of a newly built network", defect)


@pytest.mark.gpu
def test_on_a_gpu(tmp_path):
    for options in (Options(), Options(compile=True)):
        generated(tmp_path, "llama", device=Device.gpu, options=options, num_bytes=4)
