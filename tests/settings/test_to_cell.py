import pytest

from accelbench.errors import UserError
from accelbench.schema.cell import SERVING, Definition, RunSettings, Scaling, Server, TrainerSettings
from accelbench.settings.compose import cells_of
from accelbench.settings.to_cell import cell_and_options
from settings.composed import merged


def cell_of(words):
    return cell_and_options(merged(*words))[0]


def test_the_batch_grows_with_the_devices_only_where_asked_and_xla_has_processes_of_several_devices_only():
    strong, weak, one = map(cell_of, (["devices=4"], ["devices=4", "scaling=weak"], ["scaling=weak"]))
    assert (strong.batch_size, strong.batch_size_per_device) == (32, 8)
    assert (weak.batch_size, weak.batch_size_per_device) == (128, 32)
    assert (one.batch_size, one.scaling) == (32, Scaling.strong)  # nothing to scale: the same cell
    asked = [XLA, XLA[:2], XLA[::2], ("device.name=cpu", *XLA[1:])]
    assert [cell_of(words).xla_processes for words in asked] == [True, False, False, False]


SERVED = ("protocol=server", "mode=infer")
TARGET = ("protocol=target", "target.accuracy=0.9")
LOSS = ("protocol=target", "target.value=0.2")
RANDOM = ("data.name=random", "data.pipeline=host")
BERT = ("model.name=bert", "model.library=transformers", "model.task=masked_lm", *RANDOM)
GENERATE = (*BERT, "model.task=causal_lm", "mode=generate")
LIT = ("model.name=lightning", "model.library=lightning", "model.target=my.nets.Lit", "data.name=module")
PETS = ("data.name=folder", "data.path=one/pets", "data.image_size=64")
ARRAYS = ("data.name=arrays", "data.path=my images.npz")
XLA = ("device.name=xla_cpu", "devices=2", "engine.xla_processes=true")


def test_a_lightning_module_has_a_data_module_or_its_own_loaders_and_settings_of_the_trainer():
    cell = cell_of([*LIT, "data.target=my.data.Data", "trainer.accumulate_grad_batches=4"])
    assert (cell.model.definition, cell.data.target) == ("my.nets.Lit", "my.data.Data")
    assert cell.trainer.accumulate_grad_batches == 4
    alone = cell_of([*LIT, "mode=infer", "trainer.gradient_clip_val=1", "model.samples=my.data.num"])
    assert (alone.data.target, alone.trainer) == (None, TrainerSettings())  # inference has no gradients


@pytest.fixture
def files(here):
    for folder in ("one/pets", "two/pets"):
        (here / folder).mkdir(parents=True)
    for name in ("my images.npz", "mine.safetensors"):
        (here / name).touch()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["engine.name=keras", XLA[-1]], f"{XLA[-1]}: has no effect: it needs engine=pytorch,lightning"),
        (["model.library=custom", "model.target=os.system"], "model.target=os.system: os is a module of Python's stan"),
        (["model.optimizer=admw"], "model.optimizer=admw: unknown model.optimizer. Did you mean adamw. Choose"),
        ([*LIT, "model.learning_rate=0.1"], "model.learning_rate=0.1: has no effect: it needs model!=lightning"),
        (["protocol=offline"], "mode=train: protocol=offline serves requests: use mode=infer"),
        ([*SERVED, "server.workers=999"], "server.workers=999: workers share the threads: use at most "),
        ([*SERVED, "server.rate=9"], "server.percentile=99: needs 651 requests, but .* use server.duration_s=73"),
        (["protocol=target"], "protocol=target: needs target.accuracy, the accuracy to reach"),
        ([*TARGET, "target.value=1"], "target.value: has no effect with target.metric=accuracy: use target.acc"),
        ([*LOSS, "target.metric=f1"], "target.metric=f1: unknown target.metric. Choose from: accuracy, loss"),
        (["mode=generate"], "mode=generate: model=mlp is no causal language model: use model=transformers"),
        ([*GENERATE, "generate.new_tokens=1"], "generate.new_tokens: should be `int` >= 2"),
        ([*BERT[:3]], "data=mnist: networks of transformers run on random"),
        ([*BERT, "model.batch_args.length=3"], "model.batch_args.length: transformers' batches have only model.batch_"),
        ([*BERT, "model.batch_args.seq_len=long"], "model.batch_args.seq_len=long: should be a whole number from 1"),
        ([*BERT, "model.task=null"], "model.task: it is missing. Choose from: classification, masked_lm, causal_lm."),
        ([*BERT, "model.weights=pretrained"], "model.weights=pretrained: unknown model.weights. Choose from: none, a"),
        ([*BERT, "model.weights=lost.safetensors"], "model.weights=lost.safetensors: there is no such file$"),
        ([*BERT, "model.weights=a/b.bin"], "model.weights=a/b.bin: only safetensors .*your-own-network.md shows$"),
        (["model.args.x=[[.inf]]"], "model.args: should be finite, not "),
        ([r'model.args.x="a\x1b[2J"'], "model.args: has more than 4000 characters, or characters that can't be shown"),
        (["model.args.a\udcff=1"], "model.args: has more than 4000 characters, or characters that can't be shown"),
        (["data.name=folder"], "data.path: it is missing. data=folder needs the path of a folder that has"),
        ([*PETS, "data.path=nowhere"], "data.path=nowhere: there is no such folder"),
        ([*PETS, "data.image_size=0"], "data.image_size=0: should be a whole number from 1 to 4096"),
        ([*ARRAYS, "data.image_size=8"], "data.image_size=8: has no effect: it needs data=folder"),
        (["data.path=one"], "data.path=one: has no effect: it needs data=folder,arrays"),
    ],
)
def test_settings_that_do_not_go_together_or_what_is_not_there_is_named(files, settings, told):
    with pytest.raises(UserError, match=f"^{told}"):
        cells_of([merged(*settings)])


def test_a_target_keeps_what_its_definition_uses():
    every, whole = (cell_of([*TARGET, "target.every=0.5", f"target.definition={word}"]) for word in Definition)
    assert (every.target.every, whole.target.every) == (0.5, 1.0)
    loss = cell_of([*LOSS, "target.metric=loss"]).target
    assert [loss.is_met(value) for value in (0.1, 0.2, 0.3, None)] == [True, True, False, False]
    assert (loss.text, every.target.text) == ("loss at most 0.2", "accuracy at least 0.9")
    assert [every.target.is_met(value) for value in (0.89, 0.9)] == [False, True]


def test_a_protocol_that_serves_keeps_what_it_uses_and_max_batch_is_the_batch():
    asked = ["server.rate=70", "server.max_delay_ms=3", "server.max_batch=16", "breakdown_s=0", "threads=2"]
    found = {word: cell_of([f"protocol={word}", "mode=infer", "server.workers=2", *asked]) for word in SERVING}
    assert found["server"].server == Server(rate=70, max_delay_ms=3, workers=2)
    assert found["multi_stream"].server == Server(max_delay_ms=3, workers=2)
    assert found["offline"].server == Server(workers=2)
    assert found["single_stream"].server == Server()
    sizes = {"server": 16, "offline": 16, "multi_stream": 8, "single_stream": 1}
    assert {word: each.batch_size for word, each in found.items()} == sizes
    assert {each.breakdown_s for each in found.values()} == {RunSettings.breakdown_s}


def test_data_are_named_after_where_they_are_and_paths_are_relative_to_where_the_user_is(files, here):
    changes = ([], ["data.path=two/pets"], ["data.image_size=32"], [f"data.path={here}/one/pets/../pets"])
    one, two, small, again = (cell_of([*PETS, *each]).data for each in changes)
    assert (one.path, one.args) == (str(here / "one/pets"), {"image_size": 64})
    assert len({one.name, two.name, small.name}) == 3
    assert all(each.name.startswith("pets-") for each in (one, two, small))
    assert again.name == one.name
    assert cell_of(ARRAYS).data.name.startswith("my_images-")
    assert cell_of([*BERT, "model.weights=mine.safetensors"]).model.weights == str(here / "mine.safetensors")
