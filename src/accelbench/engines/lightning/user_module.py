"""The user's LightningModule with its data, set up to be measured."""

import importlib
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import nn

from accelbench.engines.lightning.loop import NEVER
from accelbench.engines.pytorch.global_state import seed_generators
from accelbench.engines.pytorch.own_batches import counted
from accelbench.engines.pytorch.structure import copied, num_rows, varied
from accelbench.engines.targets import check_call, import_path, lightning_package
from accelbench.errors import UnsupportedError, UserError
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Mode, Phase

MODULE, DATA = "LightningModule", "LightningDataModule"
# The loaders of inference, the first one first, and the stage that each is set up for.
INFERENCE_LOADERS = {
    "predict_dataloader": "predict",
    "test_dataloader": "test",
    "val_dataloader": "validate",
    "train_dataloader": "fit",
}


class CountedLoader:
    """The user's loader, which counts and checks the samples of each batch.

    That is the batch size, but for the last one of an epoch, as `model.samples` or the first tensor tells. If
    `endless`, it begins again when it ends; else Lightning does that, as a new epoch. The setting `flag` names it.
    """

    def __init__(self, loader: Any, cell: Cell, flag: str, mark: Callable[[Phase], None], *, endless: bool) -> None:
        self.loader = loader
        self.flag = flag
        self.mark = mark
        self.endless = endless
        self.batch_size = cell.batch_size
        self.count_samples = import_path("model.samples", cell.model.samples) if cell.model.samples else None
        self.sizes: list[int] = []  # of all batches, in their order
        self.last: Any = None  # the last batch, as the loader gave it
        self.num_of_epoch = 0  # samples of the last whole epoch; 0 if there was none
        self._first = 0  # the epoch's first batch in `sizes`
        self._batches: Iterator[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not yet set
            raise AttributeError(name)
        return getattr(self.loader, name)  # such as its sampler, which Lightning tells the epoch

    def __len__(self) -> int:
        return NEVER if self.endless else len(self.loader)

    def __iter__(self) -> "CountedLoader":
        # The loader begins with the first batch: Lightning also begins an iteration only to see that it can, and a
        # DataLoader would draw a random number for that.
        self._batches = None
        return self

    def __next__(self) -> Any:
        self.mark(Phase.framework)
        batch = self._following()
        self._count(batch)
        self.last = batch
        self.mark(Phase.data_wait)
        return batch

    def _following(self) -> Any:
        if self._batches is not None:
            try:
                return next(self._batches)
            except StopIteration:
                if not self.endless:
                    raise
        self.num_of_epoch = sum(self.sizes[self._first :])
        self._first = len(self.sizes)
        self._batches = iter(self.loader)
        try:
            return next(self._batches)
        except StopIteration:
            raise UserError(f"{self.flag}: its loader gave no batch in a whole epoch") from None

    def _count(self, batch: Any) -> None:
        """Counts a batch. Raises UserError: it has another size than it should have, or that can't be counted."""
        num = num_rows(batch) if self.count_samples is None else counted("model.samples", self.count_samples, batch)
        is_first = len(self.sizes) == self._first
        if not is_first and self.sizes[-1] != self.batch_size:  # that was not the last batch
            num = self.sizes[-1]
        elif num == self.batch_size or (not is_first and 0 < num < self.batch_size):
            self.sizes.append(num)
            return
        hint = "an argument or an attribute of this name; model.samples=pkg.count may count others"
        raise UserError(
            f"{self.flag}: a batch has {num} samples, not batch_size={self.batch_size}, which is given as {hint}"
        )


class UserModule:
    """The user's module and its data; as the workload and its task of a `pytorch.engine.Run`.

    Raises UserError: the classes are none of Lightning's, or miss what the cell needs.
    """

    batches: CountedLoader  # once Lightning has asked for it
    given: Any = None  # a batch as predict_step got it, in host memory: a module without a Trainer has no hooks
    feed = None  # Lightning asks for the loader

    module: Any = None

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.trains = cell.mode == Mode.train
        self.flag = f"model.target={cell.model.definition}"  # names the module in messages
        self.left_out: list[str] = []

    def _begin(self) -> nn.Module:
        start = time.perf_counter()
        self.module = self._new_module()
        self.build_s = time.perf_counter() - start
        self.package = lightning_package(type(self.module), MODULE) or ""
        target = self.cell.data.target
        self.data = None if target is None else self._new_data(target)
        self.owner, self.owner_flag = self.module, self.flag  # of the loader
        if self.data is not None:
            self.owner = self.data
            self.owner_flag = f"data.target={target}"
        self.loader = self._loader_name()
        self.make_loader = getattr(self.owner, self.loader)
        self.predicts = self._overrides(self.module, "predict_step")
        if not self.trains and not self.predicts:
            self.module.predict_step = partial(_forward, self.module)
        elif self.trains and "dataloader_iter" in inspect.signature(self.module.training_step).parameters:
            raise UnsupportedError("training_step(dataloader_iter) fetches batches itself: use training_step(batch)")
        self._leave_out_callbacks()
        built: nn.Module = self.module
        return built

    def count_batches(self, mark: Callable[[Phase], None]) -> None:
        """Has Lightning get the user's loader as `batches`, a CountedLoader that marks the phases of steps."""
        stage = INFERENCE_LOADERS[self.loader]

        def loader() -> CountedLoader:
            if not self.trains and stage != "predict":
                self.owner.setup(stage)
            made = self.make_loader()
            if isinstance(made, dict | list | tuple) or type(made).__name__ == "CombinedLoader":
                raise UnsupportedError(f"{self.owner_flag}: {self.loader} returns several loaders: return one")
            self.batches = CountedLoader(made, self.cell, self.owner_flag, mark, endless=not self.trains)
            return self.batches

        setattr(self.owner, "train_dataloader" if self.trains else "predict_dataloader", loader)

    def check_validates(self) -> None:
        """Raises a UserError if the module can't validate, which a training to a target needs."""
        of_loader = (self.owner, "val_dataloader", self.owner_flag)
        for owner, name, flag in (of_loader, (self.module, "validation_step", self.flag)):
            if not self._overrides(owner, name):
                raise UserError(f"{flag}: has no {name}, which protocol=target evaluates: define it")

    def build(self) -> nn.Module:
        """The module that is measured; later a new one like it, without a Trainer."""
        if self.module is None:
            return self._begin()
        module: nn.Module = self._new_module()
        if module.state_dict().keys() != self.module.state_dict().keys():
            raise UserError("its setup or configure_model makes layers, which need the Trainer")
        return module

    @property
    def task(self) -> "UserModule":
        """What runs the module."""
        return self

    def task_in(self, dtype: torch.dtype) -> "UserModule":
        """The same for weights of `dtype`."""
        return self

    def infer(self, module: Any, batch: Any) -> Any:
        """What a module computes for a batch in inference."""
        if not self.predicts:
            return _forward(module, batch)
        takes_index = len(inspect.signature(module.predict_step).parameters) > 1
        return module.predict_step(batch, 0) if takes_index else module.predict_step(batch)

    def example(self) -> Any:
        """A batch like those that predict_step got."""
        return copied(self.given)

    def unseen(self) -> tuple[Any, bool]:
        """One whose samples are in another order, and whether it differs from what was fed."""
        other = varied(self.given)
        return (self.example(), False) if other is None else (other, True)

    def check_first(self, output: object) -> None:
        """Any output will do."""

    def tokens_per_sample(self) -> None:
        """Nothing counts them."""

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
        for name in names:
            if self._overrides(self.owner, name):
                return name
        raise UserError(f"{self.owner_flag}: has no {' nor a '.join(names)}: define it, or use data.target")

    def _overrides(self, made: Any, name: str) -> bool:
        """Whether the class of the module or of its data defines the method itself."""
        base = getattr(importlib.import_module(self.package), MODULE if made is self.module else DATA)
        return getattr(type(made), name) is not getattr(base, name)

    def _leave_out_callbacks(self) -> None:
        """Leaves out the module's own callbacks that end the training or save."""
        make = self.module.configure_callbacks
        callbacks = importlib.import_module(f"{self.package}.callbacks")

        def configured() -> list[Any]:
            made, kept = make(), []
            self.left_out.clear()
            for callback in made if isinstance(made, list | tuple) else [made]:
                if isinstance(callback, callbacks.EarlyStopping | callbacks.Checkpoint):
                    self.left_out.append(type(callback).__name__)
                else:
                    kept.append(callback)
            return kept

        self.module.configure_callbacks = configured


def _forward(module: nn.Module, batch: Any, batch_idx: int = 0) -> Any:
    """Runs `forward` with a batch, or with its first element: what follows are labels."""
    return module(batch[0] if isinstance(batch, tuple | list) else batch)


def _made(flag: str, target: str, kind: Any, args: Mapping[str, Any], size: int | None) -> Any:
    """What `kind` makes of the arguments and of the batch size, which it takes as an argument or an attribute."""
    if size is None:
        check_call(f"{flag}: {target}", kind, **args)
        return kind(**args)
    if args.get("batch_size", size) != size:
        raise UserError(f"{flag}.batch_size={args['batch_size']}: use batch_size={args['batch_size']}")
    with suppress(ValueError, TypeError):  # not every callable has a signature
        if "batch_size" in inspect.signature(kind).parameters:
            args = {**args, "batch_size": size}
    made = _made(flag, target, kind, args, None)
    if "batch_size" not in args and hasattr(made, "batch_size"):
        made.batch_size = size
    return made
