from dataclasses import replace

import pytest

from accelbench.errors import UserError
from accelbench.schema.cell import KerasSettings, RunSettings, Server, TrainerSettings
from accelbench.schema.vocab import SERVING, Scaling
from accelbench.settings.compose import cells_of
from accelbench.settings.to_cell import cell_and_options, check_limits
from settings.composed import merged


def test_the_batch_grows_with_the_devices_only_where_asked():
    strong, _ = cell_and_options(merged("devices=4"))
    weak, _ = cell_and_options(merged("devices=4", "scaling=weak"))
    assert (strong.batch_size, strong.batch_size_per_device) == (32, 8)
    assert (weak.batch_size, weak.batch_size_per_device) == (128, 32)
    one, _ = cell_and_options(merged("scaling=weak"))
    assert (one.batch_size, one.scaling) == (32, Scaling.strong)  # nothing to scale: the same cell


def test_keras_settings_are_keras_alone():
    def keras(*words):
        return cell_and_options(merged("engine.name=keras", *words))[0].keras

    assert cell_and_options(merged())[0].keras is None
    assert keras() == KerasSettings()
    compiled = KerasSettings(steps_per_execution=4, jit_compile=True)
    assert keras("engine.jit_compile=true", "engine.steps_per_execution=4") == compiled
    with pytest.raises(UserError, match="^engine.jit_compile=true: has no effect: it needs engine=keras"):
        cells_of([merged("engine.jit_compile=true")])


def test_processes_of_xla_devices_are_pytorchs_and_of_several_devices():
    several = ("device.name=xla_cpu", "devices=2")
    assert cell_and_options(merged(*several, "engine.xla_processes=true"))[0].xla_processes
    assert not cell_and_options(merged(*several))[0].xla_processes
    for idle in (("device.name=xla_cpu",), ("device.name=cpu", "devices=2")):
        assert not cell_and_options(merged(*idle, "engine.xla_processes=true"))[0].xla_processes
    told = "^engine.xla_processes=true: has no effect: it needs engine=pytorch,lightning"
    with pytest.raises(UserError, match=told):
        cells_of([merged("engine.name=keras", "engine.xla_processes=true")])


CUSTOM = ("model.name=custom", "model.library=custom")


SERVED = ("protocol=server", "mode=infer")
TARGET = ["protocol=target", "target.accuracy=0.9"]
LOSS = ["protocol=target", "target.value=0.2"]
GPT2 = ("model.name=gpt2", "model.library=transformers", "data.name=random", "data.pipeline=host")
GENERATE = (*GPT2, "model.task=causal_lm", "mode=generate")
LIT = ("model.name=lightning", "model.library=lightning", "model.target=my.nets.Lit", "data.name=module")


def test_a_lightning_module_has_a_data_module_or_its_own_loaders_and_settings_of_the_trainer():
    cell, _ = cell_and_options(merged(*LIT, "data.target=my.data.Data", "trainer.accumulate_grad_batches=4"))
    assert (cell.model.definition, cell.data.target) == ("my.nets.Lit", "my.data.Data")
    assert cell.trainer.accumulate_grad_batches == 4
    alone, _ = cell_and_options(merged(*LIT, "mode=infer", "trainer.gradient_clip_val=1", "model.samples=my.data.num"))
    assert alone.data.target is None
    assert alone.trainer == TrainerSettings()  # inference has no gradients


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ([*CUSTOM, "model.target=os.system"], "model.target=os.system: os is a module of Python's standard library"),
        (["model.optimizer=admw"], "model.optimizer=admw: unknown model.optimizer. Did you mean adamw. Choose"),
        ([*LIT, "model.learning_rate=0.1"], "model.learning_rate=0.1: has no effect: it needs model!=lightning"),
        (["model.library=transformers", "model.task=causal_lm"], "data=mnist: networks of transformers run on random"),
        (["protocol=offline"], "mode=train: protocol=offline serves requests: use mode=infer"),
        ([*SERVED, "server.workers=999"], "server.workers=999: workers share the threads: use at most "),
        ([*SERVED, "server.rate=9"], "server.percentile=99: needs 651 requests, but .* use server.duration_s=73"),
        (["protocol=target"], "protocol=target: needs target.accuracy, the accuracy to reach"),
        ([*TARGET, "target.value=1"], "target.value: has no effect with target.metric=accuracy: use target.acc"),
        ([*LOSS, "target.metric=f1"], "target.metric=f1: unknown target.metric. Choose from: accuracy, loss"),
        (["mode=generate"], "mode=generate: model=mlp is no causal language model: use model=transformers"),
        ([*GENERATE, "generate.new_tokens=1"], "generate.new_tokens: should be `int` >= 2"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, told):
    with pytest.raises(UserError, match=f"^{told}"):
        cells_of([merged(*settings)])


@pytest.mark.parametrize(("scale", "rate"), [("none", 0.001), ("linear", 0.00025), ("sqrt", 0.0005)])
def test_the_learning_rate_grows_with_the_batch_as_asked(scale, rate):
    asked = (*TARGET, f"optimizer.scale={scale}", "model.batch_size=128")
    assert cell_and_options(merged(*asked))[0].model.learning_rate == rate
    assert cell_and_options(merged(*asked, "batch_size=128"))[0].model.learning_rate == 0.001


def test_a_target_keeps_what_its_definition_uses():
    every, whole = (
        cell_and_options(merged(*TARGET, "target.every=0.5", f"target.definition={word}"))[0].target
        for word in ("passage", "fixed")
    )
    assert (every.every, whole.every) == (0.5, 1.0)
    loss = cell_and_options(merged("protocol=target", "target.metric=loss", "target.value=0.2"))[0].target
    assert [loss.is_met(value) for value in (0.1, 0.2, 0.3, None)] == [True, True, False, False]
    assert (loss.text, every.text) == ("loss at most 0.2", "accuracy at least 0.9")
    assert [every.is_met(value) for value in (0.89, 0.9)] == [False, True]


def test_a_protocol_that_serves_keeps_what_it_uses_and_max_batch_is_the_batch():
    asked = (
        "mode=infer",
        "server.rate=70",
        "server.max_delay_ms=3",
        "server.max_batch=16",
        "breakdown_s=0",
        "threads=2",
    )
    found = {word: cell_and_options(merged(f"protocol={word}", *asked, "server.workers=2"))[0] for word in SERVING}
    assert found["server"].server == Server(rate=70, max_delay_ms=3, workers=2)
    assert found["multi_stream"].server == Server(max_delay_ms=3, workers=2)
    assert found["offline"].server == Server(workers=2)
    assert found["single_stream"].server == Server()
    sizes = {"server": 16, "offline": 16, "multi_stream": 8, "single_stream": 1}
    assert {word: each.batch_size for word, each in found.items()} == sizes
    assert {each.breakdown_s for each in found.values()} == {RunSettings.breakdown_s}


def in_range(setting):
    """The settings, if they are in range."""
    settings = merged(setting)
    check_limits(settings)
    return settings


@pytest.mark.parametrize(
    "setting",
    [
        *("devices=0", f"batch_size={2**63}", "seed=-1", "window.warmup_s=-1.0", "window.latency_steps=1000001"),
    ],
)
def test_what_is_out_of_range_is_named(setting):
    name = setting.partition("=")[0]
    with pytest.raises(UserError) as raised:
        in_range(setting)
    assert str(raised.value).startswith(f"{name}: should be `")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"x": [[float("inf")]]}, "model.args: should be finite, not "),
        ({"x": "a\x1b[2J"}, "model.args: has more than 4000 characters, or characters that can't be shown"),
        ({"a\udcff": 1}, "characters that can't be shown"),
    ],
)
def test_an_argument_that_no_record_could_keep_is_refused(arguments, told):
    run = merged()
    run = replace(run, model=replace(run.model, args=arguments))
    with pytest.raises(UserError, match=told):
        check_limits(run)
