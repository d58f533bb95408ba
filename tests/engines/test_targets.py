import functools
import os

import pytest
from pytorch_lightning import LightningModule
from torch import nn

from accelbench.engines import targets
from accelbench.errors import UserError
from accelbench.schema.cell import Library, ModelSpec

CALLED = []  # targets that are called, which none should be


class Net(nn.Module):
    pass


def annotated(size: int = 3) -> Net: ...


def bare():
    CALLED.append("bare")


def of_a_number() -> int:
    CALLED.append("of_a_number")


def malformed() -> "1 +":  # noqa: F722
    CALLED.append("malformed")


decorated = functools.wraps(annotated)(lambda *args: annotated(*args))
partial = functools.partial(bare)
network, number = Net(), 3
run, append, shell = os.system, [].append, functools.partial(os.system, "true")


def imported(target, *, factory=False):
    model = ModelSpec(name="x", library=Library.custom, network=target, factory=factory)
    return targets.import_target(model, nn.Module, "torch.nn.Module")


@pytest.mark.parametrize("name", ["Net", "annotated", "decorated"])
def test_a_networks_class_and_a_function_that_says_that_it_makes_one_may_be_called(name):
    assert imported(f"{__name__}.{name}") is globals()[name]
    assert imported("torchvision.models.resnet18").__name__ == "resnet18"  # builders with return annotations


@pytest.mark.parametrize("name", ["bare", "of_a_number", "malformed", "network", "partial"])
def test_any_other_callable_needs_the_users_word_for_it(name):
    target = f"{__name__}.{name}"
    with pytest.raises(UserError, match=rf"^model.target={target}: is neither a subclass of torch.nn.M.*factory=true"):
        imported(target)
    assert CALLED == []
    assert imported(target, factory=True) is globals()[name]


PYTHONS = "it is part of Python's standard library"


@pytest.mark.parametrize(
    ("name", "why"),
    [("run", PYTHONS), ("append", PYTHONS), ("shell", PYTHONS), ("number", "should be a class or a function, not of")],
)
@pytest.mark.parametrize("factory", [False, True])
def test_what_is_pythons_or_cannot_be_called_is_refused_under_any_name(name, why, factory):
    with pytest.raises(UserError, match=f"{name}: {why}"):
        imported(f"{__name__}.{name}", factory=factory)


def test_a_lightning_module_of_either_package_is_known_by_its_bases():
    other = type("LightningModule", (nn.Module,), {"__module__": "lightning.pytorch.core.module"})
    mine, of_other = type("Mine", (LightningModule,), {}), type("MyOther", (other,), {})
    namesake = type("LightningModule", (nn.Module,), {})
    packages = [targets.lightning_package(kind, "LightningModule") for kind in (mine, of_other, nn.Linear, namesake)]
    assert packages == ["pytorch_lightning", "lightning.pytorch", None, None]
    assert targets.lightning_package(mine, "LightningDataModule") is None
