"""Networks of the studies, of timm, of torchvision and of the user."""

import pytest
import torch
from torch import nn

from accelbench.engines.pytorch import zoo
from accelbench.engines.pytorch.flops import count
from accelbench.engines.pytorch.module import ImageTask
from accelbench.errors import UserError
from accelbench.schema.cell import Library, ModelSpec
from fakes import make_cell, needs
from marks import slow
from study_000 import STUDY_000


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
        (own_spec("torch.nn.Flatten", args={"widht": 3}), "model.args: .*unexpected keyword argument 'widht'"),
        (own_spec(f"{__name__}.make_list", factory=True), "should make a torch.nn.Module, not a list"),
        ({"name": "mlp", "args": {"widht": 3}}, "model"),
        ({"name": "resnet51", "library": Library.torchvision}, "model.name=resnet51: torchvision has no such network"),
        pytest.param({"name": "resnet51", "library": Library.timm}, "timm has no such network", marks=needs("timm")),
        ({"name": "fcn_resnet50", "library": Library.torchvision}, "torchvision has no such network"),  # no classifier
    ],
)
def test_a_wrong_target_name_or_argument_is_the_users_error(asked, message):
    with pytest.raises(UserError, match=message):
        built(**asked, shape=(3, 32, 32))
