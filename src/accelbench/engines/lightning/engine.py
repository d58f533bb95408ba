"""The Lightning engine: measures one cell in the loop of Lightning's Trainer.

A small LightningModule wraps one of accelbench's networks. A user's LightningModule runs as it is.
"""

import importlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mode
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments import TorchElasticEnvironment
from pytorch_lightning.strategies import DDPStrategy
from torch import Tensor
from torch.optim import Optimizer

from accelbench.data.order import VALIDATION
from accelbench.engines.goal import GoalRun
from accelbench.engines.lightning.trainer import EVALUATE, Endless, LoopHooks, trainer_for
from accelbench.engines.lightning.user_module import UserModule
from accelbench.engines.pytorch import engine, structure, zoo
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.feed import DrawnFeed
from accelbench.engines.pytorch.flops import Counter, not_counted
from accelbench.engines.pytorch.module import (
    EpochStep,
    InferStep,
    Program,
    TestStep,
    TrainStep,
    new_optimizer,
)
from accelbench.engines.pytorch.outputs import INFERENCE_MODE, WITH_GRAD
from accelbench.engines.pytorch.own_batches import counted
from accelbench.engines.pytorch.precision import STORED_DTYPES, Observer, new_tensors_in
from accelbench.engines.pytorch.ranks import Ranks
from accelbench.engines.targets import import_path
from accelbench.errors import UnsupportedError, UserError
from accelbench.measuring.checks import MAX_CYCLE, ObservedOutput
from accelbench.measuring.clock import NUM_INFER_EPOCHS, Ask, Clock, EpochTime
from accelbench.schema.cell import Cell, Library, Mode, TrainerSettings
from accelbench.schema.measurement import Measurement, Observed, Work
from accelbench.schema.serialize import MAX_COUNT

# Lightning's default. Learning rate schedules use this number; the loop does not stop there.
MAX_EPOCHS = 1000


def run(
    cell: Cell, data_folder: Path, weights: Path | None = None, requests: Path | None = None
) -> Measurement | None:
    """Runs `cell` in this process. The process must not have run another cell. See `pytorch.engine.run`."""
    kind = ModuleRun if cell.model.library == Library.lightning else NetworkRun
    return engine.run(cell, data_folder, weights, requests, kind)


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


class NetworkRun(engine.Run):
    """The run of one cell with a plain network in Lightning's loop."""

    fetches_inside = True
    package = "pytorch_lightning"
    trainer: Any
    module: Any
    hooks: Any  # a LoopHooks
    tests: TestStep  # adds up the losses of an evaluation

    def run_steps(self) -> None:
        if self.ranks.num_here > 1:
            # Otherwise Lightning sets another number.
            os.environ["OMP_NUM_THREADS"] = str(torch.get_num_threads())
        self.in_grad_mode(self._run_loop)
        if self.fits and self.trains:
            self.note_end()

    def measuring_context(self) -> AbstractContextManager[Any]:
        """An empty context, because Lightning itself enters the contexts that its loop needs."""
        return nullcontext()

    def _run_loop(self) -> None:
        """Creates a Trainer and runs its loop in this process. The hooks measure the cell inside the loop."""
        # The Trainer accepts only subclasses of the class Callback in its own package.
        kind = type("Hooks", (LoopHooks, importlib.import_module(self.package).Callback), {})
        self.hooks = kind(self)
        self.module = self.new_module()
        self.trainer = trainer_for(
            self.package,
            self.cell.precision,
            self.backend,
            inference_mode=self.trains or self.grad_mode == INFERENCE_MODE,
            callbacks=[self.hooks],
            profiler=self.hooks.profiler,
            **self.settings(),
        )
        loop = self.trainer.fit if self.trains else partial(self.trainer.predict, return_predictions=False)
        self.hooks.drive(partial(loop, self.module, **self.arguments()))
        if not self.trains:
            # Lightning has moved it to the host, and restored its mode.
            self.backend.place(self.network).eval()

    def new_module(self) -> Any:
        """The LightningModule that the Trainer runs."""
        return Wrapped(self)

    def settings(self) -> dict[str, Any]:
        """Settings of the Trainer."""
        return {
            "devices": self.ranks.num_here,
            "num_nodes": self.ranks.num // self.ranks.num_here,
            "strategy": DDPStrategy(cluster_environment=TorchElasticEnvironment())
            if self.ranks.num > 1
            else "auto",
            "max_epochs": self.cell.epochs if self.fits else 1,
            "logger": False,
        }

    def arguments(self) -> dict[str, Any]:
        """Returns the loaders, which are arguments of `Trainer.fit` or `Trainer.predict`."""
        if not self.trains:
            return {"dataloaders": Endless(self.feed)}
        if not self.fits:
            return {"train_dataloaders": self.feed}
        self.test_feed = self.workload.feed_of("test" if self.goal is None else VALIDATION)
        return {"train_dataloaders": self.feed, "val_dataloaders": self.test_feed}

    def begin_batch(self, batch: Any, index: int) -> None:
        """Called before each step, with the batch on the device and its index in the epoch."""

    def ends_now(self) -> bool:
        """Called after each step. Is true if a training to a target must end now, because there is no more time."""
        return self.goal is not None and self.goal.ends_now()

    def samples_between(self, first: int, last: int) -> int:
        """Returns the number of samples in the batches `first` to `last` - 1."""
        if isinstance(self.feed, DrawnFeed) and self.feed.varies:
            return sum(self.feed.sizes[first:last])
        return (last - first) * self.cell.batch_size

    def begin_loop(self) -> None:
        """Begins the measurement, after Lightning has copied the model and the optimiser to the device."""
        self.ranks.join(self.backend.joined_by)
        optimizer = next(iter(self.trainer.optimizers), None)
        task, precision = self.workload.task, self.cell.precision
        self.program = Program(self.in_network, task, self.backend, precision, optimizer, self.ranks.num)
        # The default dtype between steps: Lightning sets another one inside each step.
        self.begin(torch.float32)

    def conduct(self) -> Clock[None]:
        """Returns the clock (`measuring/clock.py`), a generator that asks Lightning's loop for steps."""
        self.begin_loop()
        if self.goal is not None:
            yield from self._train_to_goal_in_loop(self.goal)
        elif self.fits:
            yield from self._epochs()
        else:
            while not self.ranks.leads:
                yield Ask()
            yield from self.window(self.runner(None))
            yield from self.after_window()
            self.ranks.begin(0)  # the other ranks stop
        if self.ranks.leads and not (self.fits and self.trains):
            self.keep_output_after_loop()

    def _epochs(self) -> Clock[None]:
        """Runs whole epochs. In training, an evaluation on the test set follows each epoch."""
        if not self.trains:
            for _ in range(NUM_INFER_EPOCHS):
                yield from self._epoch(None)
            return
        for _ in range(self.cell.epochs):
            sums = EpochStep(self.program)
            self.module.note = sums.note
            yield from self._epoch(sums)
            self.begin_validation()
            seconds = (yield EVALUATE).seconds
            self.end_evaluation(seconds, self.tests)

    def _epoch(self, sums: EpochStep | None) -> Clock[None]:
        """Measures an epoch. `sums` is the step that adds up the losses of the epoch."""
        assert not isinstance(self.feed, DrawnFeed), "random images have no epochs"
        num = len(self.feed.order)
        first_step_s = None
        self.begin_epoch()
        start_s = time.perf_counter()
        if not self.epochs:
            first_step_s = (yield Ask()).seconds
            num -= 1
        if num:
            yield Ask(num)
        self.end_epoch(EpochTime(time.perf_counter() - start_s, first_step_s), sums)

    def _train_to_goal_in_loop(self, goal: GoalRun) -> Clock[None]:
        """Trains to the cell's target. A validation follows each interval of training; see `engines.goal`."""
        self.plan_goal(goal)
        while not goal.is_over:
            goal.begin_training(self)
            yield Ask(goal.next_end() - goal.num_calls)
            goal.end_training(self)
            self.begin_validation()
            yield EVALUATE
            self.validated(goal)

    def begin_validation(self) -> None:
        """Begins an evaluation. Creates the step that adds up its losses."""
        self.tests = TestStep(self.program)
        self.ranks.end()

    def validated(self, goal: GoalRun) -> None:
        """Records an evaluation during a training to a target."""
        goal.evaluate(self, self.tests, self.test_feed.num_samples)
        if goal.is_over:
            self.test_goal(goal)

    def keep_output_after_loop(self) -> None:
        """Stores an output of the network for the output check, after the measurement. Only the first rank calls it."""
        step: InferStep = (TrainStep if self.trains else InferStep)(self.program)
        with (
            new_tensors_in(STORED_DTYPES[self.cell.precision]),
            nullcontext() if self.trains else self._grad_context(),
        ):
            if not self.trains:
                step.compute(step.copy_in(self.workload.example()))
            self.keep_last_output(step)


class ModuleRun(NetworkRun):
    """The run of one cell with a user's LightningModule."""

    workload: UserModule  # type: ignore[assignment]
    work: Work | None = None
    last_result: Any = None  # the loss of the last step, if training_step returned one

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend, ranks: Ranks) -> None:
        self.trainer_settings = cell.trainer or TrainerSettings()
        # Number of batches whose gradients are added up for one step of the optimiser.
        self.num_accumulated = self.trainer_settings.accumulate_grad_batches if cell.mode == Mode.train else 1
        if self.num_accumulated > 1:  # no breakdown: not every batch has an optimiser step
            cell = replace(cell, breakdown_s=0.0)
        super().__init__(cell, data_folder, backend, ranks)
        self.package = self.workload.package
        self.is_plain = False
        samples = cell.model.samples
        self.count_samples = import_path("model.samples", samples) if samples else None
        self.num_loaded = 0  # samples of the loader's last batch; 0 if it has no tensors
        self.sizes: list[int] = []  # samples of each batch, in order
        self.first_in_epoch = 0  # index in `sizes` of the epoch's first batch
        self.num_in_epoch = 0  # samples of the last complete epoch; 0 before the end of the first one

    def new_workload(self) -> Any:
        return UserModule(self.cell)

    def new_module(self) -> Any:
        return self.workload.module

    def settings(self) -> dict[str, Any]:
        return {
            **vars(self.trainer_settings),
            "devices": 1,
            "max_epochs": self.cell.epochs if self.fits else MAX_EPOCHS,
            "limit_val_batches": 1.0 if self.fits else 0,
            # A logger that drops everything, so that the user's `self.logger.experiment` works.
            "logger": importlib.import_module(f"{self.package}.loggers.logger").DummyLogger(),
        }

    def arguments(self) -> dict[str, Any]:
        return {"datamodule": self.workload.data}

    def begin_loop(self) -> None:
        self._check_loader()
        self.observer.handle.remove()
        self.observer = Observer(self.module)  # a new one: Lightning's setup may have made layers
        super().begin_loop()
        self.num_params = zoo.num_params(self.module)
        self._let_the_clock_end_the_loop()
        self._count_loaded_batches()

    def _let_the_clock_end_the_loop(self) -> None:
        """Removes callbacks that end the training or save files, and the limit of epochs: the clock ends the loop."""
        trainer = self.trainer
        library = importlib.import_module(f"{self.package}.callbacks")
        ending = (library.EarlyStopping, library.Checkpoint)
        self.left_out = [
            type(callback).__name__ for callback in trainer.callbacks if isinstance(callback, ending)
        ]
        trainer.callbacks = [callback for callback in trainer.callbacks if not isinstance(callback, ending)]
        if self.trains and self.goal is None:
            trainer.fit_loop.max_epochs = -1  # schedules, which read it, exist already
            for config in trainer.lr_scheduler_configs:
                # Validation does not run: a schedule that needs its metric must not fail.
                config.strict = False

    def _count_loaded_batches(self) -> None:
        """Makes Lightning count the samples of each batch in host memory, before the module's transfer hooks.

        If `model.samples` is set, this function of the user counts. Otherwise, the rows of the first tensor count.
        """
        plugin = self.trainer.precision_plugin
        convert = plugin.convert_input  # Lightning calls it with each batch of a loader

        def count_and_convert(batch: Any) -> Any:
            if not self.trainer.validating:
                count = self.count_samples
                self.num_loaded = (
                    structure.num_rows(batch) if count is None else counted("model.samples", count, batch)
                )
            return convert(batch)

        plugin.convert_input = count_and_convert

    def _check_loader(self) -> None:
        """Raises an error if there are several loaders, or if the loader has another batch size than the cell."""
        loader = self.trainer.train_dataloader if self.trains else self.trainer.predict_dataloaders.loader
        loader = getattr(loader, "iterables", loader)  # the loaders of a CombinedLoader
        flag = self.workload.owner_flag
        if isinstance(loader, dict | list | tuple):
            raise UnsupportedError(f"{flag}: {self.workload.loader} returns several loaders: return one")
        self.size_of_loader = getattr(loader, "batch_size", None)
        self._check_size(self.size_of_loader)

    def _check_size(self, found: int | None) -> None:
        size = self.cell.batch_size
        if self.count_samples is None and found not in (None, size):
            raise UserError(
                f"{self.workload.owner_flag}: its loader has batch_size={found}, not {size}. The loader should use the "
                "module's batch_size (an argument or attribute). If a row is not a sample, set model.samples=pkg.count"
            )

    def plan_goal(self, goal: GoalRun) -> None:
        length = self.trainer.num_training_batches
        if length == float("inf"):
            flag = self.workload.owner_flag
            raise UserError(
                f"{flag}: its train_dataloader has no length, which protocol=target needs: define __len__"
            )
        goal.plan_calls(int(length))

    def begin_batch(self, batch: Any, index: int) -> None:
        """Stores how many samples a batch has. Raises UserError if there are none.

        Unless `model.samples` is set, a sample is a row before and after the module's transfer hooks, which may repeat
        or remove rows. More rows than the loader's `batch_size` are no further samples.
        """
        num, size = self.num_loaded, self.cell.batch_size
        if self.count_samples is None:
            rows = structure.num_rows(batch)
            num = min(num or rows, rows)
            if num > size:
                self._check_size(self.size_of_loader or num)
                num = size
        if not num:
            raise UserError(
                f"{self.workload.owner_flag}: a batch has no tensors: set model.samples=pkg.count"
            )
        if index == 0:
            self.num_in_epoch = sum(self.sizes[self.first_in_epoch :])
            self.first_in_epoch = len(self.sizes)
        self.sizes.append(num)
        if self.workload.batch_of_step is None:
            self.workload.batch_of_step = structure.on_host(batch)

    def after_window(self) -> Clock[None]:
        """Runs more steps after the timed window. Records the last output, and counts the work of a step."""
        self.note_resources()
        yield from super().after_window()
        outputs = self.hooks.outputs
        self.observer.see(outputs)  # in training, `forward` may not run
        loss = outputs.get("loss") if self.trains and outputs else None
        if isinstance(loss, Tensor) and loss.numel() == 1:
            self.last_result = loss
        if not self.is_one_step:
            self.work = yield from self._count()

    def keep_output_after_loop(self) -> None:
        if not self.trains:
            with self.observations.checking():
                super().keep_output_after_loop()

    def observe_output(self) -> ObservedOutput:
        """Returns the output for an unseen batch. It is not compared with the output for a batch of the loader.

        The unseen batch has the same samples as that batch, in another order. So equal outputs may be right.
        """
        return replace(super().observe_output(), fed=None, output_of_fed=())

    def note_end(self) -> None:
        super().note_end()
        # With manual optimisation, the user's code decides over how many steps gradients are accumulated.
        self.observations.training.cycle = (
            self.num_accumulated if self.module.automatic_optimization else MAX_CYCLE
        )
        for name, asked in vars(self.trainer_settings).items():
            if (value := getattr(self.trainer, name)) != asked:
                self.changes.append(
                    f"the user's code set trainer.{name}={value}, but the cell asked for {asked}"
                )

    def samples_between(self, first: int, last: int) -> int:
        return sum(self.sizes[first:last])

    def num_samples(self) -> dict[str, int]:
        """Returns a dict from "train" to the number of samples in an epoch. It is empty if the number is unknown.

        The number is counted in the last complete epoch. If no epoch was complete, the number is the length of the
        loader, multiplied by the usual size of a batch.
        """
        if not self.trains:
            return {}
        num = self.num_in_epoch or self.trainer.num_training_batches * mode(self.sizes)
        return {"train": num} if num <= MAX_COUNT else {}

    def _count(self) -> Clock[Work]:
        """Runs further steps and counts the work of one step.

        If the optimiser runs only once for several batches, runs all these batches. Then the result is the mean of
        their work.
        """
        counter = Counter()
        try:
            for _ in range(self.num_accumulated):
                yield Ask(within=counter)
        except Exception as error:  # a user's module may raise anything
            return not_counted(error)
        self.observations.products = counter.products
        return counter.work(self.num_accumulated)

    def begin_validation(self) -> None:
        """Deletes the value of the target's metric, because `training_step` may have logged it."""
        self.trainer.callback_metrics.pop(self.cell.target.metric, None)

    def validated(self, goal: GoalRun) -> None:
        """Records the metric that `validation_step` has logged. Raises UserError if it has logged none."""
        name, logged = self.cell.target.metric, self.trainer.callback_metrics
        if name not in logged:
            names = ", ".join(sorted(logged)) or "nothing"
            raise UserError(
                f"target.metric={name}: {self.workload.flag} logs {names}: log {name} in validation_step"
            )
        num = goal.num_calls
        goal.add(float(logged[name]), num, sum(self.sizes), num / goal.calls_of_epoch)
        if goal.is_over:
            goal.end(self.timing)
            self.note_resources()

    def observe(self) -> Observed:
        if self.observer.result is None:  # the user's `training_step` may not run `forward`
            self.observer.see(next(self.module.parameters()))
        usual = mode(self.sizes)
        if usual != self.cell.batch_size:
            hint = "if a row is not a sample, set model.samples=pkg.count"
            if self.count_samples is not None:
                hint = "as model.samples counts them"
            self.changes.append(
                f"most batches have {usual} samples, not batch_size={self.cell.batch_size}: {hint}"
            )
        loss = None if self.last_result is None else self.checked_loss(self.last_result.item())
        return self.observer.observed(self, loss=loss, work=self.work)

    def notes(self) -> Iterator[str]:
        yield from super().notes()
        if self.left_out:
            yield f"callbacks that end the training or save files were left out: {', '.join(self.left_out)}"
