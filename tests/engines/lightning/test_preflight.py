"""Checks of networks before they are measured."""

from dataclasses import replace

import pytest
from torch import nn

from accelbench.engines.lightning import preflight
from accelbench.errors import UserError
from accelbench.schema.vocab import Device, Library, Mode, Pipeline, Precision
from accelbench.schema.workload import DataSpec, ModelSpec
from engines.lightning.own.test_workload import own_cell
from fakes import make_cell

RANDOM = DataSpec(name="random", pipeline=Pipeline.host)


class WantsWholeBatches(nn.Module):
    """Its weights need batches of 32."""

    def __init__(self):
        super().__init__()
        self.weights = nn.Linear(28, 10)

    def forward(self, images):
        return self.weights(images.sum(1).view(32, 28))


class NeedsContents(nn.Module):
    """Its path depends on its input."""

    def __init__(self):
        super().__init__()
        self.weights = nn.Linear(784, 10)

    def forward(self, images):
        return self.weights(images.flatten(1)) if images.sum().item() else None


class Ids(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 10)

    def forward(self, ids):
        return self.embedding(ids)


class NeedsGpu(nn.Module):
    """Its kernel has no code for the CPU, or none for fp32."""

    def __init__(self):
        super().__init__()
        self.weights = nn.Linear(784, 10)

    def forward(self, images):
        raise RuntimeError("Expected x.is_cuda() to be true")


class NeedsGpuToBeBuilt(nn.Module):
    def __init__(self):
        super().__init__()
        raise AssertionError("no device of compute capability 9.0")


class Misspelt(NeedsGpu):
    def forward(self, images):
        return self.wieghts(images)


class MisspeltWhenBuilt(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.Linear(784)


def cell_of(kind, **changes):
    spec = ModelSpec(name=kind.__name__, library=Library.custom, network=f"{kind.__module__}.{kind.__name__}")
    return make_cell(model=spec, data=RANDOM, **changes)


@pytest.mark.parametrize("kind", [WantsWholeBatches, NeedsContents])
@pytest.mark.parametrize("mode", Mode)
def test_what_runs_passes(tmp_path, kind, mode):
    preflight.check(cell_of(kind, mode=mode), tmp_path)


@pytest.mark.parametrize("kind", [NeedsGpu, NeedsGpuToBeBuilt])
def test_what_fails_in_fp32_on_the_cpu_is_left_to_a_cell_that_runs_elsewhere(tmp_path, kind):
    for elsewhere in ({"device": Device.gpu}, {"precision": Precision.bf16}):
        preflight.check(cell_of(kind, **elsewhere), tmp_path)
    with pytest.raises((RuntimeError, AssertionError), match="Expected|capability"):
        preflight.check(cell_of(kind), tmp_path)


@pytest.mark.parametrize(
    ("kind", "error"), [(Misspelt, AttributeError), (MisspeltWhenBuilt, (TypeError, UserError)), (None, UserError)]
)
def test_a_mistake_in_a_name_or_an_argument_is_one_on_every_device(tmp_path, kind, error):
    cell = cell_of(kind or Ids, device=Device.gpu, precision=Precision.bf16)
    if kind is None:
        cell = replace(cell, model=replace(cell.model, network=f"{__name__}.Nowhere"))
    with pytest.raises(error):
        preflight.check(cell, tmp_path)


@pytest.mark.parametrize("loss", [None, "token_loss"])
def test_inputs_of_ones_own_pass(tmp_path, loss):
    preflight.check(own_cell("Tokens", "tokens", loss), tmp_path)


def test_a_wrong_type_is_found_that_the_meta_device_does_not_know(tmp_path):
    with pytest.raises(RuntimeError, match="Long, Int") as raised:
        preflight.check(cell_of(Ids), tmp_path)
    assert raised.value.__notes__ == [
        "its input is images of shape (32, 28, 28): model.batch names a function that makes others"
    ]


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        (own_cell("TwoInputs", "two_inputs", "vector_loss"), "model.loss=own_code.vector_loss: should return a scalar"),
        (own_cell("TwoInputs", "two_inputs", "sum_of_squares", optimizer="own_code.no_optimizer"), "model.optimizer="),
        (own_cell("TwoInputs", "two_inputs", args={"widht": 3}), "model.args: own_code.TwoInputs: got an unexpected"),
        (make_cell(model=ModelSpec(name="resnet19", library=Library.torchvision), data=RANDOM), "model.name=resnet19:"),
    ],
    ids=["loss", "optimizer", "argument", "name"],
)
def test_a_mistake_is_one_sentence(tmp_path, cell, told):
    with pytest.raises(UserError, match=f"^{told}"):
        preflight.check(cell, tmp_path)
