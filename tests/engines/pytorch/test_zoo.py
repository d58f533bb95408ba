"""Networks of the studies, of timm, of torchvision and of the user, and their weights."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torchvision import models

from accelbench.engines.pytorch import engine, weights, zoo
from accelbench.engines.pytorch.flops import count
from accelbench.engines.pytorch.module import ImageTask
from accelbench.errors import UserError
from accelbench.schema.cell import Library, ModelSpec, Options, Precision, Task, Weights
from engines.cells import FIT, MLP, measured
from fakes import make_cell, needs
from honest.networks import Tied
from marks import slow

# Networks of each kind of study 000 by timm's names: parameters, and multiply-adds for an image of 224 x 224 in 1e9.
STUDY_000 = {
    "efficientnet_b4": (19_341_616, 1.504),
    "nasnetalarge": (88_753_150, 10.284),
    "resnet18": (11_689_512, 1.814),
    "vgg16": (138_357_544, 15.470),
    "legacy_xception": (22_855_952, 4.553),
}


def make_list():
    return []


def built(name, shape=(28, 28), num_classes=10, library=Library.accelbench, **more):
    return zoo.build(ModelSpec(name=name, library=library, **more), shape, num_classes)


@needs("timm")
@pytest.mark.parametrize("name", [name if name == "resnet18" else slow(name) for name in STUDY_000])
def test_study_000s_networks_have_its_parameters_and_multiply_adds(name):
    num_params, giga_macs = STUDY_000[name]
    with torch.device("meta"):  # shapes without contents
        network = built(name, (3, 224, 224), 1000, Library.timm)
    assert zoo.num_params(network) == num_params
    work = count(make_cell(), network, ImageTask(torch.float32), (torch.empty(1, 3, 224, 224),))
    assert work.flops / 2e9 == pytest.approx(giga_macs, abs=6e-4)


@pytest.mark.parametrize("name", ["rnn", "lstm"])
def test_the_second_bias_stays_zero_in_training(name):
    network = built(name, args={"units": 8})
    network(torch.rand(4, 28, 28)).square().sum().backward()
    torch.optim.Adam(network.parameters(), lr=0.1).step()
    for layer in (part for part in network.modules() if isinstance(part, nn.RNNBase)):
        assert layer.bias_hh_l0.abs().sum() == 0
        assert layer.bias_ih_l0.grad.abs().sum() > 0


def test_initialisers_are_keras_defaults_and_follow_from_the_seed():
    torch.manual_seed(0)
    network = built("lstm")
    torch.manual_seed(0)
    assert all(torch.equal(*pair) for pair in zip(network.parameters(), built("lstm").parameters(), strict=True))
    layer = network[1].layer
    limit = (6 / (256 + 1024)) ** 0.5  # Glorot uniform on Keras' kernel of shape (256, 4 x 256)
    assert limit * 0.99 < layer.weight_ih_l0.abs().max() <= limit
    torch.testing.assert_close(layer.weight_hh_l0.T @ layer.weight_hh_l0, torch.eye(256), atol=1e-5, rtol=0)
    gates = layer.bias_ih_l0.view(4, 256)
    assert gates[1].eq(1).all()
    assert gates[[0, 2, 3]].eq(0).all()


def own_spec(target, **more):
    return {"name": "x", "library": Library.custom, "network": target, **more}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (own_spec("nowhere.at.All"), r"model.target=nowhere.at.All: can't be imported \(No module named 'nowhere'\)"),
        (own_spec(f"{__name__}.YourNet"), r"can't be imported \(module .* has no attribute 'YourNet'\)"),
        (own_spec(f"{__name__}.make_list", factory=True), "should make a torch.nn.Module, not a list"),
        ({"name": "mlp", "args": {"widht": 3}}, "model.args: .*widht"),
        ({"name": "cnn", "args": {"dropout": 7}}, "model.args: dropout probability has to be between 0 and 1"),
        ({"name": "resnet51", "library": Library.torchvision}, "model.name=resnet51: torchvision has no such network"),
        pytest.param({"name": "resnet51", "library": Library.timm}, "timm has no such network", marks=needs("timm")),
        ({"name": "fcn_resnet50", "library": Library.torchvision}, "torchvision has no such network"),  # no classifier
    ],
)
def test_a_wrong_target_name_or_argument_is_the_users_error(asked, message):
    with pytest.raises(UserError, match=message):
        built(**asked, shape=(3, 32, 32))


# Files of weights: loaded, refused, and saved after training.

TINY = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "vocab_size": 50}
BERT = ModelSpec(name="bert", library=Library.transformers, task=Task.masked_lm, args=TINY)
TIMM = ModelSpec(name="test_resnet", library=Library.timm)


def assert_has(network, state):
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())


def drawn(seed, model, shape=(8, 8)):
    torch.manual_seed(seed)
    return zoo.build(model, shape, 10)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (MLP, (8, 8)),
        (ModelSpec(name="squeezenet1_1", library=Library.torchvision), (3, 32, 32)),
        (ModelSpec(name="Two", library=Library.custom, network="own_code.TwoInputs"), ()),
        pytest.param(TIMM, (3, 32, 32), marks=needs("timm")),
        pytest.param(BERT, (), marks=needs("transformers")),
    ],
    ids=["own", "torchvision", "custom", "timm", "transformers"],
)
def test_a_network_of_any_library_gets_the_weights_of_a_file(tmp_path, model, shape):
    other, path = drawn(1, model, shape), tmp_path / "mine.safetensors"
    weights.save(other, path)
    assert_has(drawn(2, replace(model, weights=str(path)), shape), other.state_dict())
    with pytest.raises(AssertionError):
        assert_has(drawn(2, model, shape), other.state_dict())


def test_of_weights_that_are_one_tensor_one_is_saved_and_any_name_is_loaded_and_views_are_saved_apart(tmp_path):
    path, network, state = tmp_path / "tied.safetensors", Tied(), Tied().state_dict()
    weights.save(network, path)
    assert len(load_file(path)) == 1
    save_file({name: value.clone() for name, value in state.items()}, tmp_path / "all names.safetensors")
    for name, expected in (("tied", network.state_dict()), ("all names", state)):
        other = Tied()
        weights.load(other, str(tmp_path / f"{name}.safetensors"))
        assert_has(other, expected)
        assert other.out.weight is other.embedding.weight
    both = torch.randn(2, *network.out.weight.shape)
    network.embedding.weight, network.out.weight = (nn.Parameter(tensor) for tensor in both)
    weights.save(network, path)
    assert torch.equal(load_file(path)["out.weight"], both[1])


def test_a_file_of_another_network_or_kind_is_refused(tmp_path):
    path, network = tmp_path / "bad.safetensors", nn.Linear(4, 4)
    save_file({"weight": network.weight.detach(), "more": torch.zeros(3)}, path)
    with pytest.raises(UserError, match="weights do not fit the network: .*bias.*more"):
        weights.load(network, str(path))
    path.write_bytes((1 << 62).to_bytes(8, "little") + b"{}")
    with pytest.raises(UserError, match=r"^model.weights=.*bad.safetensors: not readable as safetensors \("):
        weights.load(network, str(path))


@pytest.mark.parametrize("options", [Options(), pytest.param(Options(compile=True), marks=pytest.mark.slow)])
def test_trained_weights_are_those_that_inference_then_has_in_any_precision(digits, tmp_path, options):
    path = tmp_path / "results" / "trained.safetensors"
    trained = engine.run(make_cell(**FIT, options=options, save_weights=True), digits, path)
    assert trained.notes == ["the trained weights are in trained.safetensors"]
    assert [file.name for file in path.parent.iterdir()] == ["trained.safetensors"]
    assert set(load_file(path)) == set(drawn(0, MLP).state_dict())
    fitted = replace(MLP, weights=str(path))
    for precision in (Precision.fp32, Precision.bf16):
        measured(engine, make_cell(model=fitted, precision=precision), digits)
    again = engine.run(make_cell(**{**FIT, "model": fitted}), digits)
    assert again.epochs[0].loss < trained.epochs[0].loss


def test_torchvisions_pretrained_weights_are_loaded(monkeypatch, tmp_path):
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path))
    monkeypatch.setattr("torch.hub.urlopen", lambda *_, **__: pytest.fail("nothing is downloaded"))
    (tmp_path / "checkpoints").mkdir()
    name = "shufflenet_v2_x0_5"
    torch.manual_seed(5)
    state = models.get_model(name, weights=None).state_dict()
    url = models.get_model_weights(name).DEFAULT.url
    torch.save(state, tmp_path / "checkpoints" / url.rpartition("/")[2])
    pretrained = ModelSpec(name=name, library=Library.torchvision, weights=Weights.pretrained)
    assert_has(zoo.build(pretrained, (3, 64, 64), 1000), state)


@needs("timm")
def test_timms_pretrained_weights_are_loaded(tmp_path):
    path, state = tmp_path / "own.safetensors", drawn(5, TIMM, (3, 64, 64)).state_dict()
    save_file(state, path)
    source = {"pretrained_cfg_overlay": {"file": str(path), "num_classes": 10}}
    model = replace(TIMM, weights=Weights.pretrained, args=source)
    assert_has(zoo.build(model, (3, 64, 64), 10), state)
