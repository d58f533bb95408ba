"""The user's LightningModule with its data and its Trainer, set up to be measured."""

import importlib
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import torch
from torch import nn

from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.own.batch import count_note
from accelbench.engines.lightning.own.lightning_module.loader import BatchSizes
from accelbench.engines.lightning.own.lightning_module.trainer import trainer_for
from accelbench.engines.lightning.workload import changed, set_again
from accelbench.engines.targets import check_call, import_path, lightning_package
from accelbench.errors import UnsupportedError, UserError
from accelbench.schema.cell import Cell, TrainerSettings
from accelbench.schema.vocab import Mode
from accelbench.schema.workload import ModelSpec

# Of the Trainer: what the module's code may set, and what the cell asks for by the same name.
STEP_SETTINGS = ("accumulate_grad_batches", "gradient_clip_val")


def _takes_two(method: Callable[..., Any]) -> bool:
    """Whether Lightning gives it the batch's index too, which it does by position."""
    parameters = inspect.signature(method).parameters.values()
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return len(positional) > 1 or any(each.kind == each.VAR_POSITIONAL for each in parameters)


class UserModule:
    """What is measured.

    Args:
        cell: names the classes.
        backend: the device.

    Raises:
        UserError: the classes are none of Lightning's, or miss what the cell needs.

    Attributes:
        data: the LightningDataModule; None if the module has its own loaders.
        batch_sizes: checks the batches.
        flag: names the module in messages.
    """

    def __init__(self, cell: Cell, backend: Backend) -> None:
        self.cell, self.trains = cell, cell.mode == Mode.train
        self.flag = f"model.target={cell.model.definition}"
        kind = import_path("model.target", cell.model.definition)
        known = lightning_package(kind, MODULE) if isinstance(kind, type) else None
        self.package = known or "pytorch_lightning"
        self.build_s = 0.0
        self.module = self._timed(self._new_module)()
        self.package = lightning_package(type(self.module), MODULE) or self.package
        if self.trains:
            check_training(self.module, self.package, cell.model.definition)
        self.data, takes_size = self._data(kind)
        owner, self.owner_flag = self.module, self.flag
        if self.data is not None:
            owner, self.owner_flag = self.data, f"data.target={cell.data.target}"
        self.owner = owner
        is_data = self.data is not None
        self.loader = loader_of(owner, self.package, trains=self.trains, is_data=is_data, flag=self.owner_flag)
        samples = cell.model.samples
        count = import_path("model.samples", samples) if samples else None
        self.batch_sizes = BatchSizes(self.owner_flag, cell.batch_size, count, takes_size=takes_size)
        self.trainer = trainer_for(self.package, cell, backend)
        strategy = self.trainer.strategy
        strategy.setup = self._timed(strategy.setup)  # puts the module and its optimisers onto the device
        self.left_out: list[str] = []
        self.unmonitored: list[str] = []
        self._leave_out_callbacks()
        self._guard_batches()
        self.predicts = overrides(self.module, self.package, MODULE, "predict_step")
        self.takes_first = False
        if not self.trains and not self.predicts:
            self.module.predict_step = self._forward_of(self.module)

    @property
    def num_accumulated(self) -> int:
        """Batches whose gradients make one step of the optimiser."""
        return int(self.trainer.accumulate_grad_batches) if self.trains else 1

    @property
    def asked_accumulated(self) -> int:
        """The same, as it was asked for."""
        return (self.cell.trainer or TrainerSettings()).accumulate_grad_batches or 1

    def wrap_loader(self, wrap: Callable[[Any], Any]) -> None:
        """Has Lightning get what `wrap` makes of the user's loader."""
        make, stage = getattr(self.owner, self.loader), INFERENCE_LOADERS[self.loader]

        def loader() -> Any:
            if not self.trains and stage != "predict":
                self.owner.setup(stage)
            made = make()
            if isinstance(made, dict | list | tuple) or type(made).__name__ == "CombinedLoader":
                raise UnsupportedError(f"{self.owner_flag}: {self.loader} returns several loaders: return one")
            with suppress(TypeError, NotImplementedError):  # not every loader has a length
                if len(made) == 0:
                    size = self.cell.batch_size
                    raise UserError(f"{self.owner_flag}: {self.loader} gives no batch of batch_size={size}")
            return wrap(made)

        setattr(self.owner, "train_dataloader" if self.trains else "predict_dataloader", loader)

    def check_set_up(self) -> None:
        """Looks at the optimisers, once the Trainer has made them. A schedule without its metric is no error.

        Raises:
            UserError: there is no optimiser.
        """
        if not self.trains:
            return
        self.trainer.fit_loop.max_epochs = -1  # schedules are made: the clock ends the loop
        if any(type(optimizer).__name__ == "_MockOptimizer" for optimizer in self.trainer.optimizers):
            raise UserError(f"{self.flag}: configure_optimizers returned None, so that nothing would be trained")
        for config in self.trainer.lr_scheduler_configs:
            if config.reduce_on_plateau:
                config.strict = False  # a metric of validation, which does not run

    def note_schedulers(self) -> None:
        """Notes the metrics that schedulers waited for in vain; to be called before the Trainer is stopped."""
        configs = self.trainer.lr_scheduler_configs if self.trains else []
        waiting = [config.monitor for config in configs if config.reduce_on_plateau]
        self.unmonitored = [name for name in waiting if name not in self.trainer.callback_metrics]

    def settings(self) -> dict[str, Any]:
        """The Trainer's settings that change what a step is."""
        return {name: getattr(self.trainer, name) for name in STEP_SETTINGS}

    def changed_settings(self, before: Mapping[str, Any]) -> list[str]:
        """A sentence for each of them that is not as it was asked for: the module may set them at any time.

        Args:
            before: when the first step was about to run.
        """
        asked, changed = asdict(self.cell.trainer or TrainerSettings()), []
        for name, value in self.settings().items():
            if found := [each for each in (before[name], value) if (each or 0) != (asked[name] or 0)]:
                changed.append(f"its code set trainer.{name}={found[0]}, and {asked[name]} was asked for")
        return changed if self.trains else []

    def new_predict(self, *, other: bool = False, dtype: torch.dtype = torch.float32) -> Callable[[Any], Any]:
        """What a newly built module computes for a batch on the CPU.

        Args:
            other: whether it has other weights.
            dtype: of its weights.

        Raises:
            UserError: its constructor does not make the whole network.
        """
        module: Any = changed(self._new_module(), other=other).eval()
        set_again()
        module = module.to(dtype)
        if module.state_dict().keys() != self.module.state_dict().keys():
            raise UserError("its setup or configure_model makes layers, which need the Trainer")
        if not self.predicts:
            return self._forward_of(module)
        takes_index = _takes_two(module.predict_step)
        return lambda batch: module.predict_step(batch, 0) if takes_index else module.predict_step(batch)

    def notes(self) -> Iterator[str]:
        """What of the user's ran, and what did not."""
        yield f"nobody verified the data of {self.cell.data.target or self.cell.model.definition}"
        if not self.trains:
            first = " with the first element of each batch" if self.takes_first else ""
            runs = "predict_step" if self.predicts else f"forward{first}, since there is no predict_step"
            yield f"inference runs {runs}, on batches of {self.loader}"
        if self.left_out:
            yield f"callbacks of the module were left out: {', '.join(self.left_out)}"
        if self.batch_sizes.was_short is not None:
            yield f"the last batch of an epoch has {self.batch_sizes.was_short} samples, and counts as such"
        sizes = self.batch_sizes
        num = sizes.sizes[0] if sizes.sizes else self.cell.batch_size
        if note := count_note(self.cell.model, num, self.cell.batch_size, sizes.num_rows):
            yield note
        if self.unmonitored:
            yield f"a scheduler waited for {', '.join(self.unmonitored)}, which nothing logged: no validation runs"

    def _new_module(self) -> Any:
        """The module, its weights drawn from the cell's seed."""
        importlib.import_module(self.package).seed_everything(self.cell.seed, verbose=False)
        model = self.cell.model
        args = model.args
        if self.cell.data.target is None:
            args = sized_args("model.args", import_path("model.target", model.definition), args, self.cell.batch_size)
        return make_module(model, args)

    def _data(self, kind: Any) -> tuple[Any, bool]:
        """The DataModule, if there is one, and whether what makes the batches was given their size."""
        if self.cell.data.target is None:
            return None, give_size(self.module, kind, self.cell.batch_size)
        return make_data(self.cell, self.package)

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Has the call's time added to `build_s`."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                self.build_s += time.perf_counter() - start

        return timed

    def _leave_out_callbacks(self) -> None:
        """Notes the callbacks that the module brings, instead of running them."""
        configure = self.module.configure_callbacks

        def none() -> list[Any]:
            found = configure()
            found = found if isinstance(found, list | tuple) else [found]
            self.left_out = [type(callback).__name__ for callback in found]
            return []

        self.module.configure_callbacks = none

    def _guard_batches(self) -> None:
        """A hook that skips batches would have them counted all the same."""
        if not overrides(self.module, self.package, MODULE, "on_train_batch_start"):
            return
        hook = self.module.on_train_batch_start

        def guarded(*args: Any, **kwargs: Any) -> Any:
            if (answer := hook(*args, **kwargs)) == -1:
                raise UnsupportedError(f"{self.flag}: on_train_batch_start returned -1, which skips batches")
            return answer

        self.module.on_train_batch_start = guarded

    def _forward_of(self, module: nn.Module) -> Callable[..., Any]:
        """Runs `forward` with a batch, or with its first element: what follows are labels."""

        def predict_step(batch: Any, batch_idx: int = 0) -> Any:
            if isinstance(batch, tuple | list):
                self.takes_first = True
                batch = batch[0]
            return module(batch)

        return predict_step


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
