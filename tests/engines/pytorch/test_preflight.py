"""Checks of networks before they are measured."""

from dataclasses import replace

import pytest
from torch import nn

from accelbench.engines.pytorch import engine
from accelbench.errors import UserError
from accelbench.schema.cell import DataSpec, ModelSpec
from accelbench.schema.vocab import STEP_MODES, Device, Library, Pipeline, Precision
from fakes import make_cell

RANDOM = DataSpec(name="random", pipeline=Pipeline.host)


class Own(nn.Module):
    """A network on images, with or without a mistake."""

    def __init__(self, fault):
        super().__init__()
        self.fault, self.weights = fault, nn.Linear(784, 10)
        if fault == "needs a GPU to be built":
            raise AssertionError("no device of compute capability 9.0")
        if fault == "misspelt when built":
            nn.Linear(784)

    def forward(self, images):
        if self.fault == "wants other images":
            images = images.view(-1, 100)
        if self.fault == "needs contents":
            return self.weights(images.flatten(1)) if images.sum().item() else None
        if self.fault == "needs a GPU":
            raise RuntimeError("Expected x.is_cuda() to be true")
        return (self.wieghts if self.fault == "misspelt" else self.weights)(images.flatten(1))


def cell_of(fault, **changes):
    spec = ModelSpec(name="Own", library=Library.custom, network=f"{__name__}.Own", args={"fault": fault})
    return make_cell(model=spec, data=RANDOM, **changes)


@pytest.mark.parametrize("mode", STEP_MODES)
def test_a_network_that_needs_the_contents_of_its_input_passes(tmp_path, mode):
    for fault in ("needs contents", ""):
        engine.check(cell_of(fault, mode=mode), tmp_path)


@pytest.mark.parametrize("fault", ["needs a GPU", "needs a GPU to be built"])
def test_what_fails_in_fp32_on_the_cpu_is_left_to_a_cell_that_runs_elsewhere(tmp_path, fault):
    for elsewhere in ({"device": Device.gpu}, {"precision": Precision.bf16}):
        engine.check(cell_of(fault, **elsewhere), tmp_path)
    with pytest.raises((RuntimeError, AssertionError), match="Expected|capability"):
        engine.check(cell_of(fault), tmp_path)


@pytest.mark.parametrize(
    ("fault", "error"),
    [("misspelt", AttributeError), ("misspelt when built", (TypeError, UserError)), ("nowhere", UserError)],
)
def test_a_mistake_in_a_name_or_an_argument_is_one_on_every_device(tmp_path, fault, error):
    cell = cell_of(fault, device=Device.gpu, precision=Precision.bf16)
    if fault == "nowhere":
        cell = replace(cell, model=replace(cell.model, network=f"{__name__}.Nowhere"))
    with pytest.raises(error):
        engine.check(cell, tmp_path)
