"""Makes the user's LightningModule and LightningDataModule, and tells what they define."""

import importlib
import inspect
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from torch import nn

from accelbench.engines.targets import check_call, import_path, lightning_package
from accelbench.errors import UnsupportedError, UserError
from accelbench.schema.cell import Cell
from accelbench.schema.workload import ModelSpec

MODULE, DATA = "LightningModule", "LightningDataModule"
# The loaders of inference, the first one first, and the stage that each is set up for.
INFERENCE_LOADERS = {
    "predict_dataloader": "predict",
    "test_dataloader": "test",
    "val_dataloader": "validate",
    "train_dataloader": "fit",
}


def make_module(model: ModelSpec, args: Mapping[str, Any]) -> Any:
    """The LightningModule that `model` names, made with `args`.

    Raises:
        UserError: there is no such class, it is no LightningModule, or it does not take these arguments.
    """
    flag = f"model.target={model.definition}"
    kind: Any = import_path("model.target", model.definition)
    is_class = isinstance(kind, type)
    if not (is_class and lightning_package(kind, MODULE)) and (is_class or not model.factory):
        plain = is_class and issubclass(kind, nn.Module)
        instead = "; use model=custom for a plain torch.nn.Module" if plain else ""
        raise UserError(f"{flag}: should extend {MODULE}{instead}")
    made = _made("model.args", model.definition, kind, args)
    if lightning_package(type(made), MODULE) is None:
        raise UserError(f"{flag}: should make a {MODULE}, not a {type(made).__name__}")
    return made


def make_data(cell: Cell, package: str) -> tuple[Any, bool]:
    """The LightningDataModule of a cell, and whether it was given the batch size.

    Args:
        cell: whose `data.target` is set.
        package: of the module; the DataModule has to be of the same one.

    Raises:
        UserError: there is no such class, it is no LightningDataModule, or it does not take its arguments.
    """
    target = str(cell.data.target)
    kind = import_path("data.target", target)
    found = lightning_package(kind, DATA) if isinstance(kind, type) else None
    if found is None:
        raise UserError(f"data.target={target}: should extend {DATA}")
    if found != package:
        raise UserError(f"data.target={target}: extends {found}'s {DATA}, and model.target is of {package}")
    made = _made("data.args", target, kind, sized_args("data.args", kind, cell.data.args, cell.batch_size))
    return made, give_size(made, kind, cell.batch_size)


def sized_args(flag: str, kind: Any, args: Mapping[str, Any], batch_size: int) -> dict[str, Any]:
    """The arguments, with `batch_size` if the constructor takes it.

    Raises:
        UserError: the arguments have another batch size.
    """
    if args.get("batch_size", batch_size) != batch_size:
        raise UserError(f"{flag}.batch_size={args['batch_size']}: use batch_size={args['batch_size']}")
    return {**args, "batch_size": batch_size} if _takes_size(kind) else dict(args)


def give_size(made: Any, kind: Any, batch_size: int) -> bool:
    """Sets the attribute `batch_size`, unless the constructor took it; False if there is neither."""
    if _takes_size(kind):
        return True
    if not hasattr(made, "batch_size"):
        return False
    made.batch_size = batch_size
    return True


def _takes_size(kind: Any) -> bool:
    with suppress(ValueError, TypeError):
        return "batch_size" in inspect.signature(kind).parameters
    return False


def _made(flag: str, target: str, kind: Any, args: Mapping[str, Any]) -> Any:
    check_call(f"{flag}: {target}", kind, **args)
    return kind(**args)


def overrides(made: Any, package: str, base: str, name: str) -> bool:
    """Whether the user's class defines the method itself."""
    return getattr(type(made), name) is not getattr(getattr(importlib.import_module(package), base), name)


def check_training(module: Any, package: str, target: str) -> None:
    """Raises an error if Lightning could not train the module, or batches could not be told apart."""
    for name in ("training_step", "configure_optimizers"):
        if not overrides(module, package, MODULE, name):
            raise UserError(f"model.target={target}: has no {name}, so that it can't be trained: use mode=infer")
    if "dataloader_iter" in inspect.signature(module.training_step).parameters:
        raise UnsupportedError("training_step(dataloader_iter) fetches batches itself: use training_step(batch)")


def loader_of(owner: Any, package: str, *, trains: bool, is_data: bool, flag: str) -> str:
    """The name of the method that gives the loader.

    Raises:
        UserError: the module, or DataModule, has no such loader.
    """
    names = ["train_dataloader"] if trains else list(INFERENCE_LOADERS)
    found = next((name for name in names if overrides(owner, package, DATA if is_data else MODULE, name)), None)
    if found is None:
        needed = names[0] if trains else " nor a ".join(names)
        where = "" if is_data else ": define it, or use data.target"
        raise UserError(f"{flag}: has no {needed}{where}")
    return found
