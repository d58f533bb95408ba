"""Measures one of accelbench's networks in Lightning's loop.

A small LightningModule wraps the network, and a DataLoader wraps the batches of the feed.
"""

import importlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments import TorchElasticEnvironment
from pytorch_lightning.strategies import DDPStrategy
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.data import DataLoader, IterableDataset

from accelbench.data.order import VALIDATION
from accelbench.engines.lightning.timed_loop import ClockHooks, GoalHooks, IntervalHooks
from accelbench.engines.lightning.trainer import trainer_for
from accelbench.engines.pytorch.engine import Run
from accelbench.engines.pytorch.feed import DrawnFeed, Feed
from accelbench.engines.pytorch.global_state import new_tensors_in
from accelbench.engines.pytorch.module import EpochStep, InferStep, Program, TestStep, TrainStep, new_optimizer
from accelbench.engines.pytorch.outputs import INFERENCE_MODE, WITH_GRAD
from accelbench.engines.pytorch.precision import STORED_DTYPES
from accelbench.measuring.runner import Ask, Clock
from accelbench.measuring.schedule import NUM_INFER_EPOCHS, EpochTime
from accelbench.schema.vocab import Phase

Mark = Callable[[Phase], None]


class Wrapped(pl.LightningModule):  # type: ignore[misc]
    """A LightningModule that wraps the network and the task of a run, as a user of Lightning would write it."""

    def __init__(self, cell_run: "NetworkRun") -> None:
        super().__init__()
        self.cell_run, self.network, self.task = cell_run, cell_run.in_network, cell_run.workload.task
        self.note: Callable[[Any, Tensor, Any], None] = lambda output, loss, batch: None

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        output, loss = self.task.train(self.network, batch)
        self.note(output, loss, batch)
        self.cell_run.last_result = loss.detach()
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.cell_run.tests.compute(batch)

    def predict_step(self, batch: Any, batch_idx: int) -> Any:
        with torch.enable_grad() if self.cell_run.grad_mode == WITH_GRAD else nullcontext():  # type: ignore[no-untyped-call]
            return self.task.infer(self.network, batch)

    def configure_optimizers(self) -> Optimizer:
        return new_optimizer(self.cell_run.cell.model, self)

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        self.cell_run.hooks_of_loop.mark(Phase.data_wait)
        return batch


class Batches(IterableDataset[Any]):
    """The batches of a feed, as a data set for PyTorch's DataLoader."""

    def __init__(self, feed: Feed, mark: Mark) -> None:
        self.feed, self.mark = feed, mark

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self.feed)
        while True:
            self.mark(Phase.framework)
            try:
                batch = next(batches)
            except StopIteration:
                return
            yield batch


class NetworkRun(Run):
    """The run of one cell with a plain network in Lightning's loop."""

    fetches_inside = True
    package = "pytorch_lightning"
    trainer: Any
    module: Any
    hooks_of_loop: Any  # a ClockHooks or IntervalHooks
    tests: TestStep  # adds up the losses of an evaluation

    def run_steps(self) -> None:
        if self.ranks.num_here > 1:
            os.environ["OMP_NUM_THREADS"] = str(torch.get_num_threads())  # otherwise Lightning sets another number
        num_runs = NUM_INFER_EPOCHS if self.fits and not self.trains else 1
        for _ in range(num_runs):
            self.in_grad_mode(self._run_loop)
        if self.fits and self.trains:
            self.note_end()

    def measuring_context(self) -> AbstractContextManager[Any]:
        """An empty context, because Lightning itself enters the contexts that its loop needs."""
        return nullcontext()

    def _run_loop(self) -> None:
        """Creates a Trainer and runs its loop in this process. The hooks measure the cell inside the loop."""
        hooks: type = ClockHooks
        if self.goal is not None:
            hooks = GoalHooks
        elif self.fits:
            hooks = EpochHooks
        # The Trainer accepts only subclasses of the class Callback in its own package.
        base = importlib.import_module(self.package).Callback
        # Lightning calls `setup` before the callbacks of the user's module, which it adds after this one.
        methods = {"setup": lambda *_, **options: self.leave_out_callbacks()}
        self.hooks_of_loop = type(hooks.__name__, (hooks, base), methods)(self)
        self.module = self.new_module()
        self.trainer = trainer_for(
            self.package,
            self.cell.precision,
            self.backend,
            inference_mode=self.trains or self.grad_mode == INFERENCE_MODE,
            callbacks=[self.hooks_of_loop],
            **self.settings(),
        )
        loop = self.trainer.fit if self.trains else partial(self.trainer.predict, return_predictions=False)
        self.hooks_of_loop.drive(partial(loop, self.module, **self.arguments()))
        if not self.trains:
            self.backend.place(self.network).eval()  # Lightning has moved it to the host, and restored its mode

    def leave_out_callbacks(self) -> None:
        """Removes callbacks of the user's module that must not run. Called before they run."""

    def new_module(self) -> Any:
        """The LightningModule that the Trainer runs."""
        return Wrapped(self)

    def settings(self) -> dict[str, Any]:
        """Settings of the Trainer."""
        return {
            "devices": self.ranks.num_here,
            "num_nodes": self.ranks.num // self.ranks.num_here,
            "strategy": DDPStrategy(cluster_environment=TorchElasticEnvironment()) if self.ranks.num > 1 else "auto",
            "max_epochs": self.cell.epochs if self.fits else 1,
            "logger": False,
        }

    def arguments(self) -> dict[str, Any]:
        """Returns the loaders, which are arguments of `Trainer.fit` or `Trainer.predict`."""
        if not self.trains:
            return {"dataloaders": self._loader(self.feed)}
        loaders = {"train_dataloaders": self._loader(self.feed)}
        if self.fits:
            self.test_feed = self.workload.feed_of("test" if self.goal is None else VALIDATION)
            loaders["val_dataloaders"] = self._loader(self.test_feed)
        return loaders

    def _loader(self, feed: Feed) -> DataLoader[Any]:
        # A separate generator. Otherwise each epoch would draw a number from the generator that dropout uses.
        batches = Batches(feed, self.hooks_of_loop.mark)
        return DataLoader(batches, batch_size=None, collate_fn=lambda batch: batch, generator=torch.Generator())

    def samples_between(self, first: int, last: int) -> int:
        """Returns the number of samples in the batches `first` to `last` - 1."""
        if isinstance(self.feed, DrawnFeed) and self.feed.varies:
            return sum(self.feed.sizes[first:last])
        return (last - first) * self.cell.batch_size

    def begin_validation(self) -> None:
        """Begins an evaluation. Creates the step that adds up its losses."""
        self.tests = TestStep(self.program)

    def validated(self) -> None:
        """Records an evaluation during a training to a target."""
        assert self.goal is not None
        self.goal.evaluate(self, self.tests, self.test_feed.num_samples)
        if self.goal.is_over:
            self.test_goal(self.goal)

    def begin_loop(self) -> None:
        """Begins the measurement, after Lightning has copied the model and the optimiser to the device."""
        self.ranks.join(self.backend.joined_by)
        optimizer = next(iter(self.trainer.optimizers), None)
        task, precision = self.workload.task, self.cell.precision
        self.program = Program(self.in_network, task, self.backend, precision, optimizer, self.ranks.num)
        self.begin(torch.float32)  # the default dtype between steps: Lightning sets another one inside each step
        if self.goal is not None:
            self.plan_goal(self.goal)

    def conduct(self) -> Clock[None]:
        """Returns the clock (`measuring/schedule.py`), a generator that asks Lightning's loop for steps."""
        self.begin_loop()
        while not self.ranks.leads:
            yield Ask()
        yield from self.window(self.runner(None))
        yield from self.after_window()
        self.ranks.begin(0)  # the other ranks stop
        self.keep_last()

    def keep_last(self) -> None:
        """Stores an output of the network for the output check, after the measurement. Only the first rank calls it."""
        step: InferStep = (TrainStep if self.trains else InferStep)(self.program)
        with new_tensors_in(STORED_DTYPES[self.cell.precision]), nullcontext() if self.trains else self._grad_context():
            if not self.trains:
                step.compute(step.copy_in(self.workload.example()))
            self.keep_last_output(step)


class EpochHooks(IntervalHooks):
    """Runs whole epochs. In training, evaluates the test set after each epoch."""

    sums: Any = None  # in training, the step that adds up the losses of an epoch
    num_left = 0  # batches left in the epoch

    def begin(self) -> None:
        run = self.cell_run
        if run.trains:
            self.sums = EpochStep(run.program)
            run.module.note = self.sums.note
        self.num_left = len(run.feed.order)
        run.begin_epoch()
        self.first_step_s: float | None = None
        self.start_s = time.perf_counter()

    def ends(self) -> bool:
        if not self.cell_run.epochs and self.first_step_s is None:
            self.cell_run.wait_for_ranks()
            self.first_step_s = time.perf_counter() - self.start_s
        self.num_left -= 1
        return not self.num_left

    def end(self) -> None:
        seconds = time.perf_counter() - self.start_s
        run = self.cell_run
        run.end_epoch(EpochTime(seconds, self.first_step_s), self.sums)
        if run.trains:
            run.begin_validation()
            run.ranks.end()
            self.start_s = time.perf_counter()

    def evaluated(self) -> None:
        run = self.cell_run
        run.wait_for_ranks()
        run.end_evaluation(time.perf_counter() - self.start_s, run.tests)
        self.is_over = len(run.epochs) == run.cell.epochs

    def on_predict_start(self, *_: Any) -> None:
        self.on_train_start()

    def on_predict_batch_end(self, *_: Any) -> None:
        run = self.cell_run
        run.backend.end_step()
        if self.ends():
            run.wait_for_ranks()
            self.end()
            self.is_over = True
            if run.ranks.leads and len(run.epochs) == NUM_INFER_EPOCHS:
                run.keep_last()
