import hashlib
import pickle
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torchvision import models

from accelbench.engines.lightning import weights, zoo
from accelbench.errors import UserError
from accelbench.schema.vocab import Library, Weights
from accelbench.schema.workload import ModelSpec
from fakes import needs

MY_NET = """
import torch
from safetensors.torch import load_file
from torch import nn


class MyNet(nn.Linear):
    def __init__(self, weights):
        super().__init__(2, 2)
        load = load_file if weights.endswith(".safetensors") else torch.load
        self.load_state_dict(load(weights))
"""
UNSAFE = "2.9.0"  # a torch whose torch.load a hostile file may corrupt
TINY = ModelSpec(name="shufflenet_v2_x0_5", library=Library.torchvision, weights=Weights.pretrained)
TINY_TIMM = ModelSpec(name="test_resnet", library=Library.timm, weights=Weights.pretrained)
TIMM_FOLDER = "models--timm--test_resnet.r160_in1k"


class Hostile:
    """Pickled, it writes a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.fixture
def hostile(tmp_path):
    """The bytes of a hostile checkpoint; afterwards the file that it writes must not be there."""
    pickle.loads(pickle.dumps(Hostile(tmp_path / "shown")))
    assert (tmp_path / "shown").exists()
    yield pickle.dumps(Hostile(tmp_path / "written"), protocol=2)
    assert not (tmp_path / "written").exists()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """torch's cache of downloaded files, without a network."""
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path / "hub"))
    monkeypatch.setattr("torch.hub.urlopen", no_network)
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    return folder


def no_network(*_, **__):
    raise OSError("no network")


def built(model):
    return zoo.build(model, (3, 64, 64), 1000)


@pytest.fixture
def my_net(tmp_path, monkeypatch):
    (tmp_path / "my_checkpoint_nets.py").write_text(MY_NET)
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda path: ModelSpec(
        name="MyNet", library=Library.custom, network="my_checkpoint_nets.MyNet", args={"weights": str(path)}
    )
    sys.modules.pop("my_checkpoint_nets", None)


def test_a_users_pth_is_refused_before_it_is_read_and_safetensors_are_loaded(my_net, hostile, tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "__version__", UNSAFE)
    (tmp_path / "mine.pth").write_bytes(hostile)
    with pytest.raises(UserError, match=r"model=MyNet: mine.pth is not loaded, .* \(CVE-2026-24747\): .* safetensors"):
        built(my_net(tmp_path / "mine.pth"))
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "honest.pth")
    with pytest.raises(UserError, match="honest.pth is not loaded"):
        built(my_net(tmp_path / "honest.pth"))
    state = {"weight": torch.eye(2), "bias": torch.ones(2)}
    save_file(state, tmp_path / "mine.safetensors")
    assert torch.equal(built(my_net(tmp_path / "mine.safetensors")).bias, state["bias"])
    assert torch.load is weights.torch_load  # only while a network is built


def test_a_mended_torch_loads_a_pth_but_never_more_than_its_weights(my_net, hostile, tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.10.0+cpu")
    torch.save({"weight": torch.eye(2), "bias": torch.ones(2)}, tmp_path / "honest.pth")
    assert torch.equal(built(my_net(tmp_path / "honest.pth")).bias, torch.ones(2))
    (tmp_path / "mine.pth").write_bytes(hostile)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        built(my_net(tmp_path / "mine.pth"))


@pytest.fixture
def published(monkeypatch, cache):
    """A checkpoint as torchvision might publish it for `TINY`, in the cache: its state and its file."""
    torch.manual_seed(5)
    state = models.get_model(TINY.name, weights=None).state_dict()
    torch.save(state, cache / "new.pth")
    checksum = hashlib.sha256((cache / "new.pth").read_bytes()).hexdigest()
    path = (cache / "new.pth").rename(cache / f"tiny-{checksum[:8]}.pth")
    default = models.get_model_weights(TINY.name).DEFAULT
    monkeypatch.setattr(default.value, "url", f"https://localhost/models/{path.name}")
    return state, path


def test_torchvisions_file_is_loaded_if_its_checksum_is_right(published):
    state, _ = published
    network = built(TINY)
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())


def test_another_file_of_the_same_name_is_refused_before_it_is_read(published, hostile):
    _, path = published
    path.write_bytes(hostile)
    with pytest.raises(UserError, match=rf"{path} is not the library's file, since its sha256 .*: remove it"):
        built(TINY)


def test_a_file_that_is_replaced_after_it_was_verified_is_not_read(published, hostile):
    state, path = published
    with weights.verified(f"https://localhost/models/{path.name}"):
        path.write_bytes(hostile)
        loaded = torch.load(str(path), weights_only=False)
    assert loaded.keys() == state.keys()


def test_a_file_of_the_library_without_a_checksum_is_refused(cache):
    with (
        pytest.raises(UserError, match="the library gives no checksum for tiny.pth"),
        weights.verified("https://localhost/tiny.pth"),
    ):
        pytest.fail("it was accepted")


def test_all_weights_of_torchvisions_networks_have_a_checksum():
    names = models.list_models(module=models)
    assert names
    for name in names:
        assert torch.hub.HASH_REGEX.search(models.get_model_weights(name).DEFAULT.url), name


def test_torchvisions_file_is_refused_to_the_same_builder_under_another_name(published, monkeypatch):
    monkeypatch.setattr(torch, "__version__", UNSAFE)
    args = {"weights": "DEFAULT"}
    own = ModelSpec(name="mine", library=Library.custom, network=f"torchvision.models.{TINY.name}", args=args)
    with pytest.raises(UserError, match=r"model=mine: tiny-\w+.pth is not loaded"):
        built(own)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A Hugging Face cache with the folder of `TINY_TIMM`, without a network: the folder and the model's spec."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    folder = tmp_path / "hf" / TIMM_FOLDER
    snapshot = folder / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("0" * 40)
    return snapshot, ModelSpec(**{**vars(TINY_TIMM), "args": {"cache_dir": str(tmp_path / "hf")}})


@needs("timm")
def test_timms_weights_are_safetensors(hub):
    snapshot, model = hub
    torch.manual_seed(5)
    state = built(ModelSpec(name=model.name, library=Library.timm)).state_dict()
    save_file(state, snapshot / "model.safetensors")
    network = built(model)
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())


@needs("timm")
def test_timms_pickles_are_refused_before_they_are_read(hub, hostile, tmp_path):
    snapshot, model = hub
    (snapshot / "pytorch_model.bin").write_bytes(hostile)
    advice = "use a network with weights in safetensors, or model.weights=none"
    with pytest.raises(UserError, match=rf"^model=test_resnet: pytorch_model.bin is not loaded, .*: {advice}$"):
        built(model)
    (tmp_path / "mine.pth").write_bytes(hostile)
    own = ModelSpec(name=model.name, library=Library.timm, args={"checkpoint_path": str(tmp_path / "mine.pth")})
    with pytest.raises(UserError, match="mine.pth is not loaded"):
        built(own)
