"""A plain network in Lightning's own loop: a small LightningModule around it, and a DataLoader over its batches."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, IterableDataset

from accelbench.data.order import VALIDATION
from accelbench.engines.lightning.loop import NEVER, ClockHooks, TargetHooks, callback
from accelbench.engines.lightning.trainer import of_ranks, trainer_for
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.engine import Run
from accelbench.engines.pytorch.feed import DrawnFeed, Feed
from accelbench.engines.pytorch.global_state import new_tensors_in
from accelbench.engines.pytorch.module import EpochStep, InferStep, Program, TestStep, TrainStep, new_optimizer
from accelbench.engines.pytorch.outputs import INFERENCE_MODE, WITH_GRAD
from accelbench.engines.pytorch.precision import STORED_DTYPES
from accelbench.engines.pytorch.ranks import Ranks
from accelbench.measuring.clock import NUM_INFER_EPOCHS, EpochTime
from accelbench.measuring.runner import Ask, Clock
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Phase
from accelbench.schema.workload import ModelSpec

Mark = Callable[[Phase], None]


class Wrapped(pl.LightningModule):  # type: ignore[misc]
    """A network with its task, as a user of Lightning writes it; `model` gives the optimiser and the learning rate."""

    loss: Tensor  # of the last step

    def __init__(self, network: nn.Module, task: Any, model: ModelSpec, *, with_grad: bool = False) -> None:
        super().__init__()
        self.network, self.task, self.model, self.with_grad = network, task, model, with_grad
        self.mark: Mark = lambda phase: None
        self.note: Callable[[Any, Tensor, Any], None] = lambda output, loss, batch: None
        self.tests: TestStep  # of an evaluation, which adds up its losses

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        output, loss = self.task.train(self.network, batch)
        self.note(output, loss, batch)
        self.loss = loss.detach()
        result: Tensor = loss
        return result

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.tests.compute(batch)

    def predict_step(self, batch: Any, batch_idx: int) -> Any:
        with torch.enable_grad() if self.with_grad else nullcontext():  # type: ignore[no-untyped-call]
            return self.task.infer(self.network, batch)

    def configure_optimizers(self) -> Optimizer:
        return new_optimizer(self.model, [parameter for parameter in self.parameters() if parameter.requires_grad])

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        self.mark(Phase.data_wait)
        return batch


class Batches(IterableDataset[Any]):
    """The batches of a feed."""

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


def _as_it_is(batch: Any) -> Any:
    return batch


class NetworkRun(Run):
    """One cell's run."""

    fetches_inside = True
    trainer: Any
    module: Wrapped

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend, ranks: Ranks) -> None:
        super().__init__(cell, data_folder, backend, ranks)
        if ranks.num_here > 1:
            os.environ["OMP_NUM_THREADS"] = str(torch.get_num_threads())  # else Lightning sets another number
        self.mark: Mark = lambda phase: None

    def run_steps(self) -> None:
        if not self.trains:
            for _ in range(NUM_INFER_EPOCHS if self.fits else 1):
                self.in_grad_mode(self._predict)
            return
        evaluated = None
        if self.to_target is not None:
            hooks = callback("pytorch_lightning", TargetHooks, self)
            self.test_feed = self.workload.feed_of(VALIDATION)
        elif self.fits:
            hooks = callback("pytorch_lightning", _EpochHooks, self)
            self.test_feed = self.workload.feed_of("test")
        else:
            hooks = self._clock_hooks()
        if self.fits:
            evaluated = self._loader(self.test_feed)
        self._make(hooks)
        self._run(hooks, self.trainer.fit, self._loader(self.feed), evaluated)
        if self.fits:
            self.trained.note_end([self.program.optimizer])
        self.last_result = self.module.loss

    def measuring_context(self) -> AbstractContextManager[Any]:
        """Lightning enters its own around its loop."""
        return nullcontext()

    def _predict(self) -> None:
        hooks = callback("pytorch_lightning", _EpochHooks, self) if self.fits else self._clock_hooks()
        self._make(hooks, inference_mode=self.grad_mode == INFERENCE_MODE)
        self._run(hooks, self.trainer.predict, self._loader(self.feed), return_predictions=False)
        self.backend.place(self.network)  # Lightning has moved it to the host

    def _run(self, hooks: Any, loop: Callable[..., object], *loaders: Any, **settings: Any) -> None:
        call = partial(loop, self.module, *loaders, **settings)
        if isinstance(hooks, ClockHooks):
            hooks.run(call)
        else:
            call()

    def _clock_hooks(self) -> ClockHooks:
        hooks: ClockHooks = callback(
            "pytorch_lightning", ClockHooks, self._conduct(), self.backend, self._num_samples, self.ranks
        )
        self.mark = hooks.mark
        return hooks

    def _make(self, hooks: Any, **settings: Any) -> None:
        """Makes the module, and the Trainer that runs it in this rank."""
        with_grad = self.grad_mode == WITH_GRAD
        self.module = Wrapped(self.in_network, self.workload.task, self.cell.model, with_grad=with_grad)
        self.module.mark = self.mark
        if self.to_target is not None:
            settings |= {"check_val_every_n_epoch": None, "val_check_interval": NEVER}
        self.trainer = trainer_for(
            "pytorch_lightning",
            self.cell.precision,
            self.backend,
            devices=self.ranks.num_here,
            num_nodes=self.ranks.num // self.ranks.num_here,
            strategy=of_ranks(self.ranks.num),
            max_epochs=self.cell.epochs if self.fits else 1,
            logger=False,
            callbacks=[hooks],
            **settings,
        )

    def _loader(self, feed: Feed) -> DataLoader[Any]:
        # Its own generator: else each epoch would use up a number of dropout's.
        generator = torch.Generator()
        return DataLoader(Batches(feed, self.mark), batch_size=None, collate_fn=_as_it_is, generator=generator)

    def _num_samples(self, first: int, last: int) -> int:
        if isinstance(self.feed, DrawnFeed) and self.feed.varies:
            return sum(self.feed.given[first:last])
        return (last - first) * self.cell.batch_size

    def count(self, batch: Any) -> None:
        """Of a training to a target, whose batches the feed knows."""

    def begin_validation(self) -> None:
        self.module.tests = TestStep(self.program, iter(()))

    def validated(self) -> None:
        assert self.to_target is not None
        self.to_target.evaluate(self, self.module.tests, self.test_feed.num_samples)
        if self.to_target.is_over:
            self.test_target(self.to_target)

    def begin_loop(self) -> None:
        """Begins with what is measured: Lightning has put the model and the optimiser onto the device."""
        self.ranks.join(self.backend.joined_by)
        optimizer = self.trainer.optimizers[0] if self.trains else None
        task, precision = self.workload.task, self.cell.precision
        self.program = Program(self.in_network, task, self.backend, precision, optimizer, self.ranks.num)
        self.begin(torch.float32)  # between the steps: Lightning sets another dtype around each
        if self.to_target is not None:
            self.plan_target(self.to_target)

    def _conduct(self) -> Clock[None]:
        """What happens in the loop, from its begin on."""
        self.begin_loop()
        while not self.ranks.leads:
            yield Ask()
        yield from self.window(self.runner(None))
        yield from self.after_window()
        self.ranks.begin(0)  # the others follow no more
        if self.trains:
            self.last_result = self.module.loss
        self.keep_last()

    def keep_last(self) -> None:
        """Keeps an output in the first rank, once everything was measured."""
        step: InferStep = (TrainStep if self.trains else InferStep)(self.program, iter(()))
        with new_tensors_in(STORED_DTYPES[self.cell.precision]), nullcontext() if self.trains else self._grad_context():
            if not self.trains:
                step.compute(step.copy_in(self.workload.example()))
            self._keep_output(step)


class _EpochHooks:
    """What Lightning calls in a run of whole epochs."""

    def __init__(self, run: NetworkRun) -> None:
        self.cell_run, self.wait = run, run.wait_for_ranks

    def on_train_start(self, trainer: Any, module: Any) -> None:
        self.cell_run.begin_loop()

    def on_train_epoch_start(self, trainer: Any, module: Wrapped) -> None:
        self.sums = EpochStep(self.cell_run.program, iter(()))
        module.note = self.sums.note
        self._begin()

    def _begin(self) -> None:
        self.epoch = self.cell_run.begin_epoch()
        self.first_step_s: float | None = None
        self.waits = self.epoch.is_first
        self.start_s = time.perf_counter()

    def on_train_batch_end(self, *_: Any) -> None:
        if self.waits:
            self.waits = False
            self.wait()
            self.first_step_s = time.perf_counter() - self.start_s

    def _end(self, step: Any) -> None:
        self.wait()
        took = EpochTime(time.perf_counter() - self.start_s, 0.0, self.first_step_s)
        self.cell_run.end_epoch(self.epoch, took, step)

    def on_validation_start(self, trainer: Any, module: Wrapped) -> None:
        self._end(self.sums)
        module.tests = TestStep(self.cell_run.program, iter(()))
        self.cell_run.ranks.end()
        self.start_s = time.perf_counter()

    def on_validation_end(self, trainer: Any, module: Wrapped) -> None:
        self.wait()
        self.cell_run.end_evaluation(time.perf_counter() - self.start_s, module.tests)

    def on_predict_start(self, trainer: Any, module: Any) -> None:
        self.cell_run.begin_loop()
        self._begin()

    def on_predict_batch_end(self, *_: Any) -> None:
        self.cell_run.backend.end_step()
        self.on_train_batch_end()

    def on_predict_epoch_end(self, *_: Any) -> None:
        self._end(None)
        if self.cell_run.ranks.leads and len(self.cell_run.epochs) == NUM_INFER_EPOCHS:
            self.cell_run.keep_last()
