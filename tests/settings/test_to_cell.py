from dataclasses import replace

import pytest

from accelbench.errors import UserError
from accelbench.schema.cell import RunSettings, Server, TrainerSettings
from accelbench.schema.vocab import SERVING, Scaling
from accelbench.settings.compose import cells_of
from accelbench.settings.config import DataConfig
from accelbench.settings.to_cell import cell_and_options, check_limits
from settings.composed import merged


def test_the_batch_grows_with_the_devices_only_where_asked():
    strong, _ = cell_and_options(merged("devices=4"))
    weak, _ = cell_and_options(merged("devices=4", "scaling=weak"))
    assert (strong.batch_size, strong.batch_size_per_device) == (32, 8)
    assert (weak.batch_size, weak.batch_size_per_device) == (128, 32)
    one, _ = cell_and_options(merged("scaling=weak"))
    assert (one.batch_size, one.scaling) == (32, Scaling.strong)  # nothing to scale: the same cell


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


def checked(*settings):
    bert = ("model.name=bert", "model.library=transformers", "model.task=masked_lm")
    return cell_and_options(merged(*bert, "data.name=random", "data.pipeline=host", *settings))[0].model


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("model.batch_args.length=3", "model.batch_args.length: transformers' batches have only model.batch_args.s"),
        ("model.batch_args.seq_len=long", "model.batch_args.seq_len=long: should be a whole number from 1 to"),
        ("model.task=null", "model.task: it is missing. Choose from: classification, masked_lm, causal_lm."),
        ("model.weights=pretrained", "model.weights=pretrained: unknown model.weights. Choose from: none, a file"),
    ],
)
def test_a_setting_that_transformers_lacks_is_refused(setting, told):
    with pytest.raises(UserError, match=f"^{told}"):
        checked(setting)


def test_the_path_of_weights_is_relative_to_where_the_user_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"^model.weights=mine.safetensors: there is no such file$"):
        checked("model.weights=mine.safetensors")
    (tmp_path / "mine.safetensors").write_bytes(b"")
    assert checked("model.weights=mine.safetensors").weights == str(tmp_path / "mine.safetensors")


def test_a_file_of_torch_load_is_refused_with_where_to_read_how_to_convert_it():
    with pytest.raises(UserError, match="^model.weights=some/mine.bin: only safetensors .*your-own-network.md shows$"):
        checked("model.weights=some/mine.bin")


def named(name, path, image_size=None):
    settings = {"path": path, "image_size": image_size}
    words = tuple(f"data.{key}={value}" for key, value in settings.items() if value is not None)
    (cell,), _ = cells_of([replace(merged(), data=DataConfig(name=name, **settings), words=words)])
    return cell.data


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("one/pets", "two/pets"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "my images.npz").write_bytes(b"")
    return tmp_path


def test_data_are_named_after_where_they_are(here):
    one, two, small = (named("folder", *given) for given in (("one/pets", 64), ("two/pets", 64), ("one/pets", 32)))
    assert one.path == str(here / "one" / "pets")
    assert one.args == {"image_size": 64}
    assert len({one.name, two.name, small.name}) == 3
    assert all(each.name.startswith("pets-") for each in (one, two, small))
    assert named("folder", str(here / "one" / "pets" / ".." / "pets"), 64).name == one.name
    assert named("arrays", "my images.npz").name.startswith("my_images-")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("folder", None, 64), "data.path: it is missing. data=folder needs the path of a folder that has"),
        (("folder", "nowhere", 64), "data.path=nowhere: there is no such folder"),
        (("folder", "one", 0), "data.image_size=0: should be a whole number from 1 to 4096"),
        (("arrays", "my images.npz", 8), "data.image_size=8: has no effect: it needs data=folder"),
        (("mnist", "one"), "data.path=one: has no effect: it needs data=folder,arrays"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_setting(here, given, told):
    with pytest.raises(UserError, match=f"^{told}"):
        named(*given)
