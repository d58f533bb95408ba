"""The user's LightningModule with its data and its Trainer, set up to be measured."""

import importlib
import inspect
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import torch
from torch import nn

from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.outputs import changed, set_again
from accelbench.engines.lightning.own.batch import count_note
from accelbench.engines.lightning.own.lightning_module.trainer_loop import BatchSizes
from accelbench.engines.lightning.precision import MIXED
from accelbench.engines.targets import check_call, import_path, lightning_package
from accelbench.errors import UnsupportedError, UserError
from accelbench.schema.cell import Cell, TrainerSettings
from accelbench.schema.vocab import Mode, Precision

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
# What Lightning warns about is intended here, or is what the user's own runs do too.
INTENDED = (
    "predict returned None",
    "You defined a `validation_step`",
    "The number of training batches",
    "Your `predict_dataloader`'s sampler has shuffling enabled",
    "ReduceLROnPlateau conditioned on metric",
    "Couldn't infer the batch indices",
)


class UserModule:
    """What is measured. Raises UserError: the classes are none of Lightning's, or miss what the cell needs."""

    def __init__(self, cell: Cell, backend: Backend) -> None:
        self.cell, self.trains = cell, cell.mode == Mode.train
        self.asked = cell.trainer or TrainerSettings()
        self.flag = f"model.target={cell.model.definition}"  # names the module in messages
        kind = import_path("model.target", cell.model.definition)
        known = lightning_package(kind, MODULE) if isinstance(kind, type) else None
        self.package = known or "pytorch_lightning"
        self.build_s = 0.0
        self.module, takes_size = self._timed(self._new_module)()
        self.package = lightning_package(type(self.module), MODULE) or self.package
        if self.trains:
            self._check_training()
        self.data: Any = None  # the LightningDataModule; None if the module has its own loaders
        if cell.data.target is not None:
            self.data, takes_size = self._new_data(cell.data.target)
        self.owner = self.module if self.data is None else self.data
        self.owner_flag = self.flag if self.data is None else f"data.target={cell.data.target}"
        self.loader = self._loader_name()
        count = import_path("model.samples", cell.model.samples) if cell.model.samples else None
        self.batch_sizes = BatchSizes(self.owner_flag, cell.batch_size, count, takes_size=takes_size)
        self.trainer = _trainer(self.package, cell, self.asked, backend)
        strategy = self.trainer.strategy
        strategy.setup = self._timed(strategy.setup)  # puts the module and its optimisers onto the device
        self.left_out: list[str] = []
        self.unmonitored: list[str] = []
        self.settings_at_start: dict[str, Any] = {}  # of training
        self._replace_hooks()
        self.predicts = self._overrides(self.module, MODULE, "predict_step")
        self.takes_first = False
        if not self.trains and not self.predicts:
            self.module.predict_step = self._forward_of(self.module)

    @property
    def num_accumulated(self) -> int:
        """Batches whose gradients make one step of the optimiser."""
        return int(self.trainer.accumulate_grad_batches) if self.trains else 1

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
        """Looks at the optimisers, once the Trainer has made them. Raises UserError: there is none."""
        if not self.trains:
            return
        self.settings_at_start = {name: getattr(self.trainer, name) for name in STEP_SETTINGS}
        self.trainer.fit_loop.max_epochs = -1  # schedules are made: the clock ends the loop
        if any(type(optimizer).__name__ == "_MockOptimizer" for optimizer in self.trainer.optimizers):
            raise UserError(f"{self.flag}: configure_optimizers returned None, so that nothing would be trained")
        for config in self.trainer.lr_scheduler_configs:
            if config.reduce_on_plateau:
                config.strict = False  # no error without a metric of validation, which does not run

    def note_schedulers(self) -> None:
        """Notes the metrics that schedulers waited for in vain; to be called before the Trainer is stopped."""
        configs = self.trainer.lr_scheduler_configs if self.trains else []
        waiting = [config.monitor for config in configs if config.reduce_on_plateau]
        self.unmonitored = [name for name in waiting if name not in self.trainer.callback_metrics]

    def changed_settings(self) -> list[str]:
        """A sentence for each of the Trainer's settings that is not as it was asked for, now or at the first step."""
        asked, sentences = asdict(self.asked), []
        for name, before in self.settings_at_start.items():
            if found := [each for each in (before, getattr(self.trainer, name)) if (each or 0) != (asked[name] or 0)]:
                sentences.append(f"its code set trainer.{name}={found[0]}, and {asked[name]} was asked for")
        return sentences

    def new_predict(self, *, other: bool = False, dtype: torch.dtype = torch.float32) -> Callable[[Any], Any]:
        """What a newly built module of this dtype, perhaps with other weights, computes for a batch on the CPU."""
        module: Any = changed(self._new_module()[0], other=other).eval()
        set_again()
        module = module.to(dtype)
        if module.state_dict().keys() != self.module.state_dict().keys():
            raise UserError("its setup or configure_model makes layers, which need the Trainer")
        if not self.predicts:
            return self._forward_of(module)
        # Lightning gives the batch's index too, by position, to a method that takes it.
        parameters = inspect.signature(module.predict_step).parameters.values()
        positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        takes_index = len(positional) > 1 or any(each.kind == each.VAR_POSITIONAL for each in parameters)
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
        sizes = self.batch_sizes
        if sizes.was_short is not None:
            yield f"the last batch of an epoch has {sizes.was_short} samples, and counts as such"
        num = sizes.sizes[0] if sizes.sizes else self.cell.batch_size
        if note := count_note(self.cell.model, num, self.cell.batch_size, sizes.num_rows):
            yield note
        if self.unmonitored:
            yield f"a scheduler waited for {', '.join(self.unmonitored)}, which nothing logged: no validation runs"

    def _new_module(self) -> tuple[Any, bool]:
        """The module, its weights drawn from the seed; and whether it was given the batch size, if it has the data."""
        importlib.import_module(self.package).seed_everything(self.cell.seed, verbose=False)
        model = self.cell.model
        kind: Any = import_path("model.target", model.definition)
        is_class = isinstance(kind, type)
        if not (is_class and lightning_package(kind, MODULE)) and (is_class or not model.factory):
            plain = is_class and issubclass(kind, nn.Module)
            instead = "; use model=custom for a plain torch.nn.Module" if plain else ""
            raise UserError(f"{self.flag}: should extend {MODULE}{instead}")
        size = self.cell.batch_size if self.cell.data.target is None else None
        made, takes_size = _made("model.args", model.definition, kind, model.args, size)
        if lightning_package(type(made), MODULE) is None:
            raise UserError(f"{self.flag}: should make a {MODULE}, not a {type(made).__name__}")
        return made, takes_size

    def _new_data(self, target: str) -> tuple[Any, bool]:
        """The DataModule, and whether it was given the batch size."""
        kind = import_path("data.target", target)
        found = lightning_package(kind, DATA) if isinstance(kind, type) else None
        if found is None:
            raise UserError(f"data.target={target}: should extend {DATA}")
        if found != self.package:
            raise UserError(f"data.target={target}: extends {found}'s {DATA}, and model.target is of {self.package}")
        return _made("data.args", target, kind, self.cell.data.args, self.cell.batch_size)

    def _loader_name(self) -> str:
        """The name of the method that gives the loader."""
        names = ["train_dataloader"] if self.trains else list(INFERENCE_LOADERS)
        base = MODULE if self.data is None else DATA
        found = next((name for name in names if self._overrides(self.owner, base, name)), None)
        if found is None:
            where = ": define it, or use data.target" if self.data is None else ""
            raise UserError(f"{self.owner_flag}: has no {' nor a '.join(names)}{where}")
        return found

    def _overrides(self, made: Any, base: str, name: str) -> bool:
        """Whether the user's class defines the method itself."""
        return getattr(type(made), name) is not getattr(getattr(importlib.import_module(self.package), base), name)

    def _check_training(self) -> None:
        """Raises an error if Lightning could not train the module, or batches could not be told apart."""
        for name in ("training_step", "configure_optimizers"):
            if not self._overrides(self.module, MODULE, name):
                raise UserError(f"{self.flag}: has no {name}, so that it can't be trained: use mode=infer")
        if "dataloader_iter" in inspect.signature(self.module.training_step).parameters:
            raise UnsupportedError("training_step(dataloader_iter) fetches batches itself: use training_step(batch)")

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
        """Notes the callbacks that the module brings, instead of running them, and lets no hook skip batches."""
        configure, hook = self.module.configure_callbacks, self.module.on_train_batch_start

        def none() -> list[Any]:
            found = configure()
            found = found if isinstance(found, list | tuple) else [found]
            self.left_out = [type(callback).__name__ for callback in found]
            return []

        def guarded(*args: Any, **kwargs: Any) -> Any:
            if (answer := hook(*args, **kwargs)) == -1:  # the batch would be counted all the same
                raise UnsupportedError(f"{self.flag}: on_train_batch_start returned -1, which skips batches")
            return answer

        self.module.configure_callbacks = none
        if self._overrides(self.module, MODULE, "on_train_batch_start"):
            self.module.on_train_batch_start = guarded

    def _forward_of(self, module: nn.Module) -> Callable[..., Any]:
        """Runs `forward` with a batch, or with its first element: what follows are labels."""

        def predict_step(batch: Any, batch_idx: int = 0) -> Any:
            if isinstance(batch, tuple | list):
                self.takes_first = True
                batch = batch[0]
            return module(batch)

        return predict_step


def _made(flag: str, target: str, kind: Any, args: Mapping[str, Any], size: int | None) -> tuple[Any, bool]:
    """What `kind` makes of the arguments, and whether it takes the batch size, as an argument or an attribute."""
    takes_size = False
    if size is not None:
        if args.get("batch_size", size) != size:
            raise UserError(f"{flag}.batch_size={args['batch_size']}: use batch_size={args['batch_size']}")
        with suppress(ValueError, TypeError):  # not every callable has a signature
            takes_size = "batch_size" in inspect.signature(kind).parameters
    if takes_size:
        args = {**args, "batch_size": size}
    check_call(f"{flag}: {target}", kind, **args)
    made = kind(**args)
    if size is not None and not takes_size and hasattr(made, "batch_size"):
        made.batch_size, takes_size = size, True
    return made, takes_size


def _trainer(package: str, cell: Cell, settings: TrainerSettings, backend: Backend) -> Any:
    """The Trainer that runs the cell, from `pytorch_lightning` or `lightning.pytorch`.

    A logger that drops everything stands in, so that `self.logger.experiment` works. Precision is a plugin, since the
    Trainer's argument `precision=` substitutes silently: see `lightning.precision.plugin_for`.
    """
    for logger in (package, package.replace(".pytorch", ".fabric")):
        logging.getLogger(logger).setLevel(logging.ERROR)
    for note in INTENDED:
        warnings.filterwarnings("ignore", message=note)
    plugins, precision = importlib.import_module(f"{package}.plugins.precision"), cell.precision
    if precision in MIXED:
        plugin = plugins.MixedPrecision(MIXED[precision], backend.torch_type)
    elif precision == Precision.fp64:
        plugin = plugins.DoublePrecision()
    elif precision in (Precision.fp16, Precision.bf16):
        plugin = plugins.HalfPrecision("16-true" if precision == Precision.fp16 else "bf16-true")
    else:
        plugin = plugins.Precision()
    return importlib.import_module(package).Trainer(
        accelerator=backend.accelerator,
        devices=1,
        plugins=[plugin],
        max_epochs=MAX_EPOCHS,
        accumulate_grad_batches=settings.accumulate_grad_batches,
        gradient_clip_val=settings.gradient_clip_val,
        limit_val_batches=0,
        num_sanity_val_steps=0,
        logger=importlib.import_module(f"{package}.loggers.logger").DummyLogger(),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
