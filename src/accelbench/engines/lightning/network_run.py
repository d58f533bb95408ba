"""A plain network in Lightning's own loop: a small LightningModule around it, and a DataLoader over its batches."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.accelerators import XLAAccelerator
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.data import DataLoader, IterableDataset

from accelbench.engines.lightning.loop import NEVER, ClockHooks, callback
from accelbench.engines.pytorch.engine import Run
from accelbench.engines.pytorch.feed import DrawnFeed, Feed
from accelbench.engines.pytorch.global_state import new_tensors_in
from accelbench.engines.pytorch.module import InferStep, Program, TrainStep, new_optimizer
from accelbench.engines.pytorch.outputs import INFERENCE_MODE, WITH_GRAD
from accelbench.engines.pytorch.precision import STORED_DTYPES, stored_in
from accelbench.engines.pytorch.training import trainable
from accelbench.measuring.runner import Clock
from accelbench.schema.vocab import Phase, Precision

Mark = Callable[[Phase], None]
HALF = {Precision.fp16: "16-true", Precision.bf16: "bf16-true"}
MIXED = {Precision.fp16_mixed: "16-mixed", Precision.bf16_mixed: "bf16-mixed"}


class Wrapped(pl.LightningModule):  # type: ignore[misc]
    """A run's network with its task, as a user of Lightning writes it."""

    def __init__(self, cell_run: "NetworkRun") -> None:
        super().__init__()
        self.cell_run, self.network, self.task = cell_run, cell_run.in_network, cell_run.workload.task

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        _, loss = self.task.train(self.network, batch)
        self.cell_run.last_result = loss.detach()
        return loss

    def predict_step(self, batch: Any, batch_idx: int) -> Any:
        with torch.enable_grad() if self.cell_run.grad_mode == WITH_GRAD else nullcontext():  # type: ignore[no-untyped-call]
            return self.task.infer(self.network, batch)

    def configure_optimizers(self) -> Optimizer:
        return new_optimizer(self.cell_run.cell.model, list(trainable(self).values()))

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        self.cell_run.hooks_of_loop.mark(Phase.data_wait)
        return batch


class Batches(IterableDataset[Any]):
    """The batches of a feed."""

    def __init__(self, feed: Feed, mark: Mark) -> None:
        self.feed, self.mark = feed, mark

    def __iter__(self) -> Iterator[Any]:
        self.mark(Phase.framework)
        for batch in self.feed:
            yield batch
            self.mark(Phase.framework)


class NetworkRun(Run):
    """One cell's run."""

    fetches_inside = True
    package = "pytorch_lightning"
    trainer: Any
    module: Any
    hooks: type = ClockHooks
    hooks_of_loop: Any  # one of these

    def run_steps(self) -> None:
        self.in_grad_mode(self._run_loop)

    def measuring_context(self) -> AbstractContextManager[Any]:
        """Lightning enters its own around its loop."""
        return nullcontext()

    def _run_loop(self) -> None:
        """Has a new Trainer run its loop, in which the cell is measured."""
        self.hooks_of_loop = callback(self.package, self.hooks, self)
        self.module = self.new_module()
        self.trainer = trainer_for(
            self.package,
            self.cell.precision,
            self.backend.torch_type,
            inference_mode=self.trains or self.grad_mode == INFERENCE_MODE,
            callbacks=[self.hooks_of_loop],
            **self.settings(),
        )
        loop = self.trainer.fit if self.trains else partial(self.trainer.predict, return_predictions=False)
        self.hooks_of_loop.drive(partial(loop, self.module, **self.arguments()))
        if not self.trains:
            self.backend.place(self.network)  # Lightning has moved it to the host

    def new_module(self) -> Any:
        """The LightningModule that the Trainer runs."""
        return Wrapped(self)

    def settings(self) -> dict[str, Any]:
        """Those of the Trainer."""
        return {"max_epochs": 1, "logger": False}

    def arguments(self) -> dict[str, Any]:
        """What the Trainer's loop gets beside the module: the loader of batches."""
        batches = Batches(self.feed, self.hooks_of_loop.mark)
        # Its own generator: else it would use up a number of dropout's.
        own = torch.Generator()
        loader = DataLoader(batches, batch_size=None, collate_fn=lambda batch: batch, generator=own)
        return {"train_dataloaders" if self.trains else "dataloaders": loader}

    def samples_between(self, first: int, last: int) -> int:
        """Samples of the batches from one to before the other."""
        if isinstance(self.feed, DrawnFeed) and self.feed.varies:
            return sum(self.feed.given[first:last])
        return (last - first) * self.cell.batch_size

    def begin_loop(self) -> None:
        """Begins with what is measured: Lightning has put the model and the optimiser onto the device."""
        optimizer = next(iter(self.trainer.optimizers), None)
        self.program = Program(self.in_network, self.workload.task, self.backend, self.cell.precision, optimizer)
        self.begin(torch.float32)  # between the steps: Lightning sets another dtype around each

    def conduct(self) -> Clock[None]:
        """What happens in the loop, from its begin on."""
        self.begin_loop()
        yield from self.window(self.runner(None))
        yield from self.after_window()
        self.keep_last()

    def keep_last(self) -> None:
        """Keeps an output, once everything was measured."""
        step: InferStep = (TrainStep if self.trains else InferStep)(self.program, iter(()))
        with new_tensors_in(STORED_DTYPES[self.cell.precision]), nullcontext() if self.trains else self._grad_context():
            if not self.trains:
                step.compute(step.copy_in(self.workload.example()))
            self.keep_last_output(step)


def trainer_for(package: str, precision: Precision, torch_type: str, **settings: Any) -> Any:
    """A Trainer from `package`, `pytorch_lightning` or `lightning.pytorch`, for the device and the precision.

    It evaluates where `GoalHooks` decides, if at all.
    """
    lightning = importlib.import_module(package)
    # Lightning would import torch_xla to look for a TPU, which takes 1.5 s and replaces parts of torch.nn.
    XLAAccelerator.is_available = staticmethod(lambda: False)
    left_out = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    return lightning.Trainer(
        accelerator=torch_type,
        devices=1,
        num_sanity_val_steps=0,
        check_val_every_n_epoch=None,
        val_check_interval=NEVER,
        plugins=[plugin_for(precision, torch_type, package)],
        **left_out,
        **settings,
    )


def plugin_for(precision: Precision, torch_type: str, package: str) -> Any:
    """The plugin of Lightning's `package` that computes in `precision` on `torch_type`."""
    # The Trainer's argument `precision=` substitutes silently: `16-mixed` on the CPU becomes `bf16-mixed`.
    plugins = importlib.import_module(f"{package}.plugins.precision")
    if precision in MIXED:
        return plugins.MixedPrecision(MIXED[precision], torch_type)
    if precision == Precision.fp64:
        return plugins.DoublePrecision()
    plugin = plugins.HalfPrecision(HALF[precision]) if precision in HALF else plugins.Precision()
    plugin.convert_module = partial(stored_in, precision=precision)  # that of HalfPrecision drops imaginary parts
    return plugin
