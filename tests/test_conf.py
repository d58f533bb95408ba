import inspect
from functools import cache
from itertools import zip_longest
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from accelbench.data.sets import DATA_SETS
from accelbench.devices.registry import fastest_for
from accelbench.engines.networks import NETWORKS
from accelbench.engines.pytorch import zoo
from accelbench.engines.pytorch.module import OPTIMIZERS
from accelbench.grid.support import why_unfit
from accelbench.schema.cell import ARRAYS, FOLDER, MODULE, RANDOM, SHAPES, Device, Engine, Library
from accelbench.settings import config, params, to_cell
from accelbench.settings.compose import resolvers
from accelbench.settings.config import GROUPS, Executor
from accelbench.sinks.delivery import TRACKERS

ROOT = Path(__file__).resolve().parents[1]
NAMES = {group: sorted(path.stem for path in (ROOT / "conf" / group).glob("*.yaml")) for group in GROUPS}
OWN_DATA = {FOLDER, ARRAYS}  # named after their path
LIBRARIES = set(Library) - {Library.accelbench}  # a file each, for any network of theirs
# accelbench's own networks: a user's file names the library of its own.
SHIPPED = [name for name in NAMES["model"] if "library:" not in (ROOT / f"conf/model/{name}.yaml").read_text()]
TARGETS = ["model.target=my.Net", "data.target=my.Data"]
PICTURES = f"data.path={ROOT / 'conf'}"
# What a file does not compose without.
OTHERS = {
    ("model", "custom"): TARGETS[:1],
    ("model", "lightning"): TARGETS,
    ("data", "module"): ["model=lightning", *TARGETS],
    ("data", "folder"): [PICTURES],
    ("data", "arrays"): [f"data.path={ROOT / 'params.yaml'}"],  # whether it is an .npz file is known when it is read
}
ALSO = {"auto": fastest_for(Engine.pytorch), "cuda": Device.gpu}  # words for devices


@pytest.fixture(scope="module", autouse=True)
def hydra():
    with resolvers(), initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        yield


@cache  # several tests ask for a model
def composed(*overrides):
    return to_cell.cell_and_options(OmegaConf.to_object(compose("config", list(overrides))))


# Each model alone, and a file of each other group at a time, since Hydra takes a fifth of a second.
OF_GROUP = [[(group, name) for name in NAMES[group]] for group in GROUPS if group != "model"]
TRIED = [[("model", name)] for name in NAMES["model"]]
TRIED += [[each for each in files if each] for files in zip_longest(*OF_GROUP)]


@pytest.mark.parametrize("files", TRIED, ids=lambda files: " ".join(map("=".join, files)))
def test_every_file_of_every_group_composes_to_what_it_is_called(files):
    cell, options = composed(*(word for each in files for word in ["=".join(each), *OTHERS.get(each, [])]))
    assert options.title
    for group, name in files:
        chosen = getattr(options if group in ("tracking", "executor") else cell, group)
        if group == "model" and name in LIBRARIES:
            assert chosen.library == name
            assert cell.data.name == (MODULE if name == Library.lightning else RANDOM)
        elif group == "data" and name in OWN_DATA:
            assert chosen.name.startswith("conf-" if name == FOLDER else "params-")
        else:
            assert (chosen.name if group in ("model", "data", "executor") else chosen) == ALSO.get(name, name)


def test_what_can_be_chosen_is_what_there_is():
    there = {"device": {*Device, *ALSO}, "engine": {*Engine}, "tracking": {*TRACKERS}, "executor": {*Executor}}
    there["data"] = {*DATA_SETS, MODULE, *OWN_DATA}
    assert {group: set(NAMES[group]) for group in there} == there
    assert {composed(f"model={name}")[0].model.definition for name in SHIPPED} == set(NETWORKS)
    assert set(NAMES["model"]) >= LIBRARIES
    assert set(config.Optimizer) == set(OPTIMIZERS)
    assert {*params.load(ROOT).data, MODULE, *OWN_DATA} == there["data"]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_models_arguments_are_all_of_the_networks_and_its_defaults_where_it_has_its_name(name):
    model = composed(f"model={name}")[0].model
    parameters = inspect.signature(NETWORKS[model.definition]).parameters.values()
    defaults = {one.name: one.default for one in parameters if one.kind == one.KEYWORD_ONLY}
    assert model.args.keys() == defaults.keys()
    if model.network is None:
        assert model.args == {key: list(one) if isinstance(one, tuple) else one for key, one in defaults.items()}


# Its data, its parameters there as the study counts them, and how it is trained.
STUDIES = {
    "mlp": ("mnist", 1_195_018, (128, 5, "adam", 1e-3)),
    "cnn": ("mnist", 112_074, (128, 10, "adam", 1e-3)),
    "rnn": ("mnist", 338_186, (128, 1, "sgd", 1e-2)),
    "lstm": ("mnist", 1_345_034, (128, 1, "sgd", 1e-2)),
    "autoencoder": ("mnist", 1_662_257, (32, 1, "adam", 1e-3)),
    "pets_cnn": ("cats_vs_dogs", 11_178_177, (32, 10, "adam", 1e-3)),
    "scaling_cnn_small": ("random", 8_765_066, None),  # inference alone
    "scaling_cnn_medium": ("random", 49_729_610, None),
    "scaling_cnn_large": ("random", 198_877_322, None),
    "mlp_cifar10": ("cifar10", 12_230_010, (32, 10, "sgd", 1e-2)),
    "mlp_fashion_mnist_1": ("fashion_mnist", 397_510, (32, 5, "adam", 1e-3)),
    "mlp_fashion_mnist_5": ("fashion_mnist", 1_399_510, (32, 5, "adam", 1e-3)),
}


@pytest.mark.parametrize("name", sorted(STUDIES))
def test_a_model_is_its_studys_on_its_data_unless_other_data_is_named(name):
    data, num_params, training = STUDIES[name]
    cell, _ = composed(f"model={name}")
    shape, num_classes = SHAPES.get(data, cell.model.input_shape), 2 if data == "cats_vs_dogs" else 10
    assert (cell.data.name, why_unfit(cell)) == (data, None)
    with torch.device("meta"):  # the shapes alone
        assert zoo.num_params(zoo.build(cell.model, shape, num_classes)) == num_params
    trained = (cell.batch_size, cell.epochs, cell.model.optimizer, cell.model.learning_rate)
    assert training in (trained, None)
    if name == "mlp_cifar10":
        assert (
            composed("data=fashion_mnist", f"model={name}", "model.input_shape=[28,28]")[0].data.name == "fashion_mnist"
        )
