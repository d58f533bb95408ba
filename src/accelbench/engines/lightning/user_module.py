"""The user's LightningModule and its data, prepared for a measurement."""

import importlib
import inspect
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from torch import nn

from accelbench.engines.lightning.trainer import Endless
from accelbench.engines.pytorch.own_batches import BaseWorkload
from accelbench.engines.pytorch.precision import seed_generators
from accelbench.engines.pytorch.structure import copied, varied
from accelbench.engines.targets import check_call, import_path, lightning_package
from accelbench.errors import UserError
from accelbench.schema.cell import Cell, Mode

MODULE, DATA = "LightningModule", "LightningDataModule"
# Method that makes a loader for inference, the preferred one first -> the stage to pass to `setup`.
INFERENCE_LOADERS = {
    "predict_dataloader": "predict",
    "test_dataloader": "test",
    "val_dataloader": "validate",
    "train_dataloader": "fit",
}


class UserModule(BaseWorkload):
    """The user's LightningModule and its data. A `pytorch.engine.Run` uses this object as its workload and its task.

    Raises UserError if the user's class does not extend Lightning's class, or if it lacks a method that the cell needs.
    """

    feed = None  # Lightning asks the user's code for the loader
    module: Any = None  # the measured module
    # A batch in host memory, after the module's hooks: copies of the module run no hooks.
    batch_of_step: Any = None

    def __init__(self, cell: Cell) -> None:
        self.task = self
        self.cell = cell
        self.trains = cell.mode == Mode.train
        self.flag = f"model.target={cell.model.definition}"  # the name of the module in messages

    def build(self) -> Any:
        """Builds the measured module at the first call. Later calls build new modules, which have no Trainer."""
        module = self._new_module()
        if self.module is None:
            self.module = module
            self._begin()
        elif module.state_dict().keys() != self.module.state_dict().keys():
            raise UserError(
                "a new module and the measured one have different weights: make all layers in __init__"
            )
        return module

    def _begin(self) -> None:
        """Builds the data, finds the loader, and prepares inference.

        Raises UserError if no method makes a loader, or if the module's step takes an iterator instead of a batch.
        """
        self.package = lightning_package(type(self.module), MODULE) or ""
        target = self.cell.data.target
        self.data = None if target is None else self._new_data(target)
        # The object that has the loader, and its name in messages.
        self.owner, self.owner_flag = self.module, self.flag
        if self.data is not None:
            self.owner = self.data
            self.owner_flag = f"data.target={target}"
        self.loader = self._loader_name()
        self.predicts = self._overrides(self.module, "predict_step")
        step = "training_step" if self.trains else "predict_step"
        if "dataloader_iter" in inspect.signature(getattr(self.module, step)).parameters:
            raise UserError(f"{self.flag}: {step}(self, dataloader_iter) is not supported: use (self, batch)")
        if not self.trains:
            self._prepare_inference()

    def _prepare_inference(self) -> None:
        """Makes the loader endless, and the loader of `predict`. Uses `forward` if there is no `predict_step`."""
        make_loader = getattr(self.owner, self.loader)
        stage = INFERENCE_LOADERS[self.loader]

        def endless() -> Endless:
            if stage != "predict":
                self.owner.setup(stage)
            return Endless(make_loader())

        self.owner.predict_dataloader = endless
        if not self.predicts:
            self.module.predict_step = partial(_forward, self.module)

    def infer(self, module: Any, batch: Any) -> Any:
        """Runs a module on a batch in inference and returns its output."""
        if not self.predicts:
            return _forward(module, batch)
        takes_index = len(inspect.signature(module.predict_step).parameters) > 1
        return module.predict_step(batch, 0) if takes_index else module.predict_step(batch)

    def example(self) -> Any:
        """A copy of a batch that `training_step` or `predict_step` got."""
        return copied(self.batch_of_step)

    def unseen(self) -> tuple[Any, bool]:
        """Makes an unseen batch out of the samples of a fed batch (see `structure.varied`).

        If this is impossible, returns a copy of the fed batch. Also returns whether the two batches differ.
        """
        other = varied(self.batch_of_step)
        return (self.example(), False) if other is None else (other, True)

    def notes(self) -> Iterator[str]:
        """Yields notes on the user's data, and on the methods of the user's module that ran."""
        yield f"nobody verified the data of {self.cell.data.target or self.cell.model.definition}"
        if not self.trains:
            method = "predict_step" if self.predicts else "forward with the first element of a tuple"
            yield f"inference runs {method}, on batches of {self.loader}"

    def _new_module(self) -> Any:
        """Makes a module. The cell's seed determines its weights.

        Passes the batch size to the module. If a data module has the loader, does not pass the batch size.
        """
        seed_generators(self.cell.seed)
        model = self.cell.model
        kind = import_path("model.target", model.definition)
        if not (model.factory or (isinstance(kind, type) and lightning_package(kind, MODULE))):
            raise UserError(
                f"{self.flag}: should extend {MODULE}: if it returns a {MODULE}, set model.factory=true"
            )
        size = self.cell.batch_size if self.cell.data.target is None else None
        module = _created("model.args", model.definition, kind, model.args, size)
        if lightning_package(type(module), MODULE) is None:
            raise UserError(f"{self.flag}: should return a {MODULE}, not a {type(module).__name__}")
        return module

    def _new_data(self, target: str) -> Any:
        kind = import_path("data.target", target)
        if not isinstance(kind, type) or lightning_package(kind, DATA) != self.package:
            raise UserError(
                f"data.target={target}: should extend {DATA} of {self.package}, which model.target uses"
            )
        return _created("data.args", target, kind, self.cell.data.args, self.cell.batch_size)

    def _loader_name(self) -> str:
        """The name of the method that makes the loader."""
        names = ["train_dataloader"] if self.trains else list(INFERENCE_LOADERS)
        for name in names:
            if self._overrides(self.owner, name):
                return name
        instead = "define one, or use data.target" if self.data is None else "define one"
        raise UserError(f"{self.owner_flag}: has no {' and no '.join(names)}: {instead}")

    def _overrides(self, module: Any, name: str) -> bool:
        """Is true if a module or a data module overrides the method `name` of Lightning's base class."""
        base = getattr(importlib.import_module(self.package), MODULE if module is self.module else DATA)
        return getattr(type(module), name) is not getattr(base, name)


def _forward(module: nn.Module, batch: Any, batch_idx: int = 0) -> Any:
    """Runs `forward` on a batch. If the batch is a tuple or a list, passes only its first element, not the labels."""
    return module(batch[0] if isinstance(batch, tuple | list) else batch)


def _created(flag: str, target: str, kind: Any, args: Mapping[str, Any], size: int | None) -> Any:
    """Calls the class or function `kind` with the arguments `args`, and returns the result.

    If `size` is not None, also passes it as the argument `batch_size`, unless `args` has this argument. If `kind` has
    no such argument, but the result has an attribute `batch_size`, sets this attribute instead. Raises UserError if
    `kind` does not accept the arguments.
    """
    with suppress(ValueError, TypeError):  # a callable without a signature gets no argument `batch_size`
        if size is not None and "batch_size" in inspect.signature(kind).parameters:
            args = {"batch_size": size, **args}
    check_call(f"{flag}: {target}", kind, **args)
    instance = kind(**args)
    if size is not None and "batch_size" not in args and hasattr(instance, "batch_size"):
        instance.batch_size = size
    return instance
