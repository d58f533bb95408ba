"""The user's LightningModule with its data and its Trainer, set up to be measured."""

import importlib
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from torch import nn

from accelbench.engines.lightning.trainer import trainer_for
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.global_state import seed_generators
from accelbench.engines.targets import check_call, import_path, lightning_package
from accelbench.errors import UnsupportedError, UserError
from accelbench.schema.cell import Cell, TrainerSettings
from accelbench.schema.vocab import Mode

MODULE, DATA = "LightningModule", "LightningDataModule"
# Of the Trainer: what the module's code may set, and what the cell asks for by the same name.
STEP_SETTINGS = ("accumulate_grad_batches", "gradient_clip_val")
# The loaders of inference, the first one first, and the stage that each is set up for.
INFERENCE_LOADERS = {
    "predict_dataloader": "predict",
    "test_dataloader": "test",
    "val_dataloader": "validate",
    "train_dataloader": "fit",
}
MAX_EPOCHS = 1000  # Lightning's default, from which schedules are made; the engine lets the loop go on after it


class UserModule:
    """What is measured. Raises UserError: the classes are none of Lightning's, or miss what the cell needs."""

    def __init__(self, cell: Cell, backend: Backend) -> None:
        self.cell, self.trains = cell, cell.mode == Mode.train
        self.asked = cell.trainer or TrainerSettings()
        # Batches whose gradients make one step of the optimiser.
        self.num_accumulated = self.asked.accumulate_grad_batches if self.trains else 1
        self.flag = f"model.target={cell.model.definition}"  # names the module in messages
        self.build_s = 0.0
        self.module = self._timed(self._new_module)()
        self.package = lightning_package(type(self.module), MODULE) or ""
        self.data = None if cell.data.target is None else self._new_data(cell.data.target)
        self.owner, self.owner_flag = self.module, self.flag  # of the loader
        if self.data is not None:
            self.owner, self.owner_flag = self.data, f"data.target={cell.data.target}"
        self.loader = self._loader_name()
        self.count_samples = import_path("model.samples", cell.model.samples) if cell.model.samples else None
        self.trainer = _trainer(self.package, cell, self.asked, backend)
        strategy = self.trainer.strategy
        strategy.setup = self._timed(strategy.setup)  # puts the module and its optimisers onto the device
        self.predicts = self._overrides(self.module, "predict_step")
        self._replace_hooks()

    def wrap_loader(self, wrap: Callable[[Any], Any]) -> None:
        """Has Lightning get what `wrap` makes of the user's loader."""
        make, stage = getattr(self.owner, self.loader), INFERENCE_LOADERS[self.loader]

        def loader() -> Any:
            if not self.trains and stage != "predict":
                self.owner.setup(stage)
            made = make()
            if isinstance(made, dict | list | tuple) or type(made).__name__ == "CombinedLoader":
                raise UnsupportedError(f"{self.owner_flag}: {self.loader} returns several loaders: return one")
            return wrap(made)

        setattr(self.owner, "train_dataloader" if self.trains else "predict_dataloader", loader)

    def check_validates(self) -> None:
        """Raises a UserError if the module can't validate, which a training to a target needs."""
        of_loader = (self.owner, "val_dataloader", self.owner_flag)
        for owner, name, flag in (of_loader, (self.module, "validation_step", self.flag)):
            if not self._overrides(owner, name):
                raise UserError(f"{flag}: has no {name}, which protocol=target evaluates: define it")

    def begin(self) -> None:
        """Sets what the loop begins with, once the Trainer has made the optimisers."""
        if self.trains:
            self.trainer.fit_loop.max_epochs = -1  # schedules are made: the clock ends the loop
        for config in self.trainer.lr_scheduler_configs if self.trains else ():
            config.strict = False  # no error without a metric of validation, which does not run

    def changed_settings(self) -> list[str]:
        """A sentence for each of the Trainer's settings that is not as it was asked for."""
        both = [(name, getattr(self.trainer, name), getattr(self.asked, name)) for name in STEP_SETTINGS if self.trains]
        changed = [each for each in both if (each[1] or 0) != (each[2] or 0)]
        return [f"its code set trainer.{name}={now}, and {asked} was asked for" for name, now, asked in changed]

    def rebuilt(self) -> nn.Module:
        """A new module like that which is measured, without a Trainer."""
        module: nn.Module = self._new_module()
        if module.state_dict().keys() != self.module.state_dict().keys():
            raise UserError("its setup or configure_model makes layers, which need the Trainer")
        return module

    def predict(self, module: Any, batch: Any) -> Any:
        """What a module computes for a batch in inference."""
        if not self.predicts:
            return _forward(module, batch)
        try:  # Lightning gives the batch's index too, by position, to a method that takes it
            inspect.signature(module.predict_step).bind(batch, 0)
        except TypeError:
            return module.predict_step(batch)
        return module.predict_step(batch, 0)

    def notes(self) -> Iterator[str]:
        """What of the user's ran, and what did not."""
        yield f"nobody verified the data of {self.cell.data.target or self.cell.model.definition}"
        if not self.trains:
            runs = "predict_step" if self.predicts else "forward, of a tuple with its first element"
            yield f"inference runs {runs}, on batches of {self.loader}"
        if self.left_out:
            yield f"callbacks that end the training or save were left out: {', '.join(self.left_out)}"

    def _new_module(self) -> Any:
        """One with weights drawn from the seed; and with the batch size, if it has the data."""
        seed_generators(self.cell.seed)
        model = self.cell.model
        kind = import_path("model.target", model.definition)
        if not (model.factory or (isinstance(kind, type) and lightning_package(kind, MODULE))):
            raise UserError(f"{self.flag}: should extend {MODULE}, or be trusted to make one: model.factory=true")
        size = self.cell.batch_size if self.cell.data.target is None else None
        made = _made("model.args", model.definition, kind, model.args, size)
        if lightning_package(type(made), MODULE) is None:
            raise UserError(f"{self.flag}: should make a {MODULE}, not a {type(made).__name__}")
        return made

    def _new_data(self, target: str) -> Any:
        kind = import_path("data.target", target)
        if not isinstance(kind, type) or lightning_package(kind, DATA) != self.package:
            raise UserError(f"data.target={target}: should extend {DATA} of {self.package}, as model.target does")
        return _made("data.args", target, kind, self.cell.data.args, self.cell.batch_size)

    def _loader_name(self) -> str:
        """The name of the method that gives the loader."""
        names = ["train_dataloader"] if self.trains else list(INFERENCE_LOADERS)
        found = next((name for name in names if self._overrides(self.owner, name)), None)
        if found is None:
            raise UserError(f"{self.owner_flag}: has no {' nor a '.join(names)}: define it, or use data.target")
        return found

    def _overrides(self, made: Any, name: str) -> bool:
        """Whether the class of the module or of its data defines the method itself."""
        base = getattr(importlib.import_module(self.package), MODULE if made is self.module else DATA)
        return getattr(type(made), name) is not getattr(base, name)

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Has the call's time added to `build_s`."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                self.build_s += time.perf_counter() - start

        return timed

    def _replace_hooks(self) -> None:
        """Leaves out callbacks that end or save, and lets no hook fetch or skip batches itself."""
        module, hook = self.module, self.module.on_train_batch_start
        self.left_out: list[str] = []
        make, callbacks = module.configure_callbacks, importlib.import_module(f"{self.package}.callbacks")

        def configured() -> list[Any]:
            made = make()
            found = list(made) if isinstance(made, list | tuple) else [made]
            ending = [each for each in found if isinstance(each, callbacks.EarlyStopping | callbacks.Checkpoint)]
            self.left_out = [type(each).__name__ for each in ending]
            return [each for each in found if each not in ending]

        if self.trains and "dataloader_iter" in inspect.signature(module.training_step).parameters:
            raise UnsupportedError("training_step(dataloader_iter) fetches batches itself: use training_step(batch)")

        def guarded(*args: Any, **kwargs: Any) -> Any:
            if (answer := hook(*args, **kwargs)) == -1:  # the batch would be counted all the same
                raise UnsupportedError(f"{self.flag}: on_train_batch_start returned -1, which skips batches")
            return answer

        module.configure_callbacks = configured
        if self._overrides(module, "on_train_batch_start"):
            module.on_train_batch_start = guarded
        if not self.trains and not self.predicts:
            module.predict_step = partial(_forward, module)


def _forward(module: nn.Module, batch: Any, batch_idx: int = 0) -> Any:
    """Runs `forward` with a batch, or with its first element: what follows are labels."""
    return module(batch[0] if isinstance(batch, tuple | list) else batch)


def _made(flag: str, target: str, kind: Any, args: Mapping[str, Any], size: int | None) -> Any:
    """What `kind` makes of the arguments and of the batch size, which it takes as an argument or an attribute."""
    if size is not None and args.get("batch_size", size) != size:
        raise UserError(f"{flag}.batch_size={args['batch_size']}: use batch_size={args['batch_size']}")
    with suppress(ValueError, TypeError):  # not every callable has a signature
        if size is not None and "batch_size" in inspect.signature(kind).parameters:
            args = {**args, "batch_size": size}
    check_call(f"{flag}: {target}", kind, **args)
    made = kind(**args)
    if size is not None and "batch_size" not in args and hasattr(made, "batch_size"):
        made.batch_size = size
    return made


def _trainer(package: str, cell: Cell, settings: TrainerSettings, backend: Backend) -> Any:
    """The Trainer that runs the cell, from `pytorch_lightning` or `lightning.pytorch`."""
    # A logger that drops everything stands in, so that `self.logger.experiment` works.
    return trainer_for(
        package,
        cell.precision,
        backend,
        devices=1,
        max_epochs=MAX_EPOCHS,
        accumulate_grad_batches=settings.accumulate_grad_batches,
        gradient_clip_val=settings.gradient_clip_val,
        limit_val_batches=0,
        logger=importlib.import_module(f"{package}.loggers.logger").DummyLogger(),
    )
