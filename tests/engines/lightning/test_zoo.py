import sys

import pytest
import torch
from torch import nn

from accelbench.engines.lightning import zoo
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.module import BenchModule
from accelbench.engines.lightning.task import ImageTask
from accelbench.engines.lightning.work import count
from accelbench.errors import UserError
from accelbench.schema.vocab import Library, Precision, Weights
from accelbench.schema.workload import ModelSpec
from fakes import needs

# Study 000's networks by timm's names: parameters, and multiply-adds for an image of 224 x 224 in 1e9.
STUDY_000 = {
    "efficientnet_b0": (5_288_548, 0.386),
    "efficientnet_b1": (7_794_184, 0.570),
    "efficientnet_b2": (9_109_994, 0.659),
    "efficientnet_b3": (12_233_232, 0.963),
    "efficientnet_b4": (19_341_616, 1.504),
    "mobilenetv2_100": (3_504_872, 0.301),
    "nasnetalarge": (88_753_150, 10.284),
    "resnet18": (11_689_512, 1.814),
    "resnet26": (15_995_176, 2.342),
    "resnet34": (21_797_672, 3.664),
    "resnet50": (25_557_032, 4.089),
    "resnet101": (44_549_160, 7.801),
    "resnet152": (60_192_808, 11.514),
    "vgg11": (132_863_336, 7.609),
    "vgg13": (133_047_848, 11.308),
    "vgg16": (138_357_544, 15.470),
    "vgg19": (143_667_240, 19.632),
    "legacy_xception": (22_855_952, 4.553),
}
MY_NETS = """
from torch import nn
class MyNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(3 * 4 * 4, width), nn.Linear(width, 10))
    def forward(self, images):
        return self.layers(images)
def make(width=8):
    return MyNet(width)
def make_list():
    return []
"""


def spec(library, name, **changes):
    return ModelSpec(name=name, library=library, **changes)


@needs("timm")
@pytest.mark.parametrize("name", STUDY_000)
def test_study_000s_networks_have_its_parameters_and_multiply_adds(name):
    num_params, giga_macs = STUDY_000[name]
    model = spec(Library.timm, name)
    with torch.device("meta"):  # the shapes alone
        network = zoo.build(model, (3, 224, 224), 1000)
    assert zoo.num_params(network) == num_params
    module = BenchModule(network, model, ImageTask(torch.float32), Backend())
    work = count(module, (torch.empty(1, 3, 224, 224),), Precision.fp32, train=False)
    assert work.flops / 2e9 == pytest.approx(giga_macs, abs=6e-4)


@pytest.mark.parametrize(
    ("library", "name"),
    [pytest.param(Library.timm, "resnet18", marks=needs("timm")), (Library.torchvision, "resnet18")],
)
def test_the_libraries_networks_take_the_classes_asked_for(library, name):
    network = zoo.build(spec(library, name), (3, 64, 64), 7).eval()
    assert network(torch.rand(2, 3, 64, 64)).shape == (2, 7)


@needs("timm")
def test_timms_networks_take_grey_images():
    network = zoo.build(spec(Library.timm, "resnet18"), (32, 40), 7).eval()
    assert network(torch.rand(2, 32, 40)).shape == (2, 7)


@pytest.mark.parametrize("name", ["fcn_resnet50", "raft_small", "r3d_18"])
def test_a_torchvision_network_that_does_not_classify_is_refused(name):
    with pytest.raises(UserError, match="torchvision has no such network"):
        zoo.build(spec(Library.torchvision, name), (3, 32, 32), 10)


@needs("timm")
def test_equal_seeds_give_equal_weights():
    one, two = (
        (torch.manual_seed(3), zoo.build(spec(Library.timm, "mobilenetv2_100"), (3, 32, 32), 10))[1] for _ in range(2)
    )
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


@pytest.mark.parametrize("library", [pytest.param(Library.timm, marks=needs("timm")), Library.torchvision])
def test_an_unknown_name_is_answered_with_those_near_it(library):
    with pytest.raises(UserError, match=rf"model.name=resnet51: {library} has no such network. Near it: .*resnet50"):
        zoo.build(spec(library, "resnet51"), (3, 32, 32), 10)


@pytest.mark.parametrize("library", [pytest.param(Library.timm, marks=needs("timm")), Library.torchvision])
def test_weights_that_cannot_be_had_are_a_clear_error(library, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path))
    monkeypatch.setattr("torch.hub.urlopen", lambda *_, **__: (_ for _ in ()).throw(OSError("no network")))
    if library == Library.timm:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"model.weights=pretrained: the weights of resnet18 can't be had \(.+\); use"):
        zoo.build(spec(library, "resnet18", weights=Weights.pretrained), (3, 32, 32), 1000)


def test_the_studies_own_networks_have_no_pretrained_weights():
    with pytest.raises(UserError, match="model.weights=pretrained: mlp has none"):
        zoo.build(ModelSpec(name="mlp", weights=Weights.pretrained), (28, 28), 10)


@pytest.fixture
def my_package(tmp_path, monkeypatch):
    (tmp_path / "my_zoo_package").mkdir()
    (tmp_path / "my_zoo_package" / "nets.py").write_text(MY_NETS)
    monkeypatch.syspath_prepend(tmp_path)
    yield "my_zoo_package.nets"
    sys.modules.pop("my_zoo_package.nets", None)
    sys.modules.pop("my_zoo_package", None)


def test_a_network_of_ones_own_gets_its_arguments(my_package):
    network = zoo.build(spec(Library.custom, "MyNet", network=f"{my_package}.MyNet", args={"width": 5}), (3, 4, 4), 10)
    assert isinstance(network, nn.Module)
    assert network.layers[1].out_features == 5


@pytest.mark.parametrize(
    ("target", "args", "told"),
    [
        ("nowhere.at.All", {}, r"model.target=nowhere.at.All: can't be imported \(No module named 'nowhere'\)"),
        ("{0}.YourNet", {}, r"can't be imported \(module .* has no attribute 'YourNet'\)"),
        ("os.system", {"command": "true"}, "os is a module of Python's standard library"),
        ("{0}.make", {}, "model.factory=true has it called"),
        ("{0}.MyNet", {"widht": 3}, "model.args: .*unexpected keyword argument 'widht'"),
    ],
)
def test_a_target_that_is_not_a_network_is_a_user_error(my_package, target, args, told):
    with pytest.raises(UserError, match=told):
        zoo.build(spec(Library.custom, "x", network=target.format(my_package), args=args), (3, 4, 4), 10)


def test_a_factory_is_called_if_the_user_says_so(my_package):
    model = spec(Library.custom, "x", network=f"{my_package}.make", args={"width": 5}, factory=True)
    assert zoo.build(model, (3, 4, 4), 10).layers[1].out_features == 5
    with pytest.raises(UserError, match="should make a torch.nn.Module, not a list"):
        zoo.build(spec(Library.custom, "x", network=f"{my_package}.make_list", factory=True), (3, 4, 4), 10)
