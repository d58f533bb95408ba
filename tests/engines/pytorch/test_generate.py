"""Cells that generate text, in this process."""

import re

import pytest

from accelbench.engines.pytorch import engine, zoo
from accelbench.engines.pytorch.flops import OF_GENERATION
from accelbench.errors import UserError
from accelbench.schema.cell import Device, Generate, Mode, Options, Precision, Task
from engines import cells
from engines.pytorch.test_tokens import cell, model
from fakes import needs
from marks import slow

pytestmark = needs("transformers")
PROMPT, NEW, BATCH, LAYERS, WIDTH = 6, 5, 3, 2, 32
SHORT, LONG = Generate(prompt_tokens=PROMPT, new_tokens=NEW), Generate(prompt_tokens=1000, new_tokens=25)


def asked(name="gpt2", generate=SHORT, **changes):
    return cell(model(name, Task.causal_lm), mode=Mode.generate, generate=generate, batch_size=BATCH, **changes)


def measured(tmp_path, *words, num_bytes, **changes):
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
    measurement = measured(tmp_path, name, precision=precision, num_bytes=num_bytes)
    assert all("in float32" in note for note in measurement.notes[1:])
    assert measurement.output_error < (1e-5 if precision == Precision.fp32 else 0.1)


@pytest.mark.slow
@pytest.mark.timeout(900)  # compilation is slow on busy cores
def test_a_compiled_network_has_a_static_cache(tmp_path):
    measurement = measured(tmp_path, "llama", options=Options(compile=True), timeout_s=900.0, num_bytes=4)
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


@pytest.mark.parametrize(
    ("name", "generate", "message"),
    [
        slow("mamba", SHORT, "model.name=mamba: mode=generate needs a network with a key-value cache: use"),
        ("vit", SHORT, "model.name=vit: its configuration has no vocab_size for token ids: use another model.name"),
        ("gpt2", LONG, "generate.prompt_tokens and generate.new_tokens: together 1025: gpt2 accepts at most 1024 tok"),
    ],
)
def test_what_can_not_generate_is_told_before_it_runs(tmp_path, name, generate, message):
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        engine.run(asked(name, generate), tmp_path)


@pytest.mark.gpu
def test_on_a_gpu(tmp_path):
    for options in (Options(), Options(compile=True)):
        measured(tmp_path, "llama", device=Device.gpu, options=options, num_bytes=4)
