"""Measures a user's LightningModule in the loop of Lightning's Trainer, or trains the module there to a target.

A measured step is one batch of the Trainer's loop. The step includes all work of the loop between two batches, such as
the work at the end of an epoch.
"""

import importlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from accelbench.engines.goal import GoalRun
from accelbench.engines.lightning.timed_loop import KEEPS_BATCH
from accelbench.engines.lightning.trainer_run import NetworkRun
from accelbench.engines.lightning.user_module import UserModule
from accelbench.engines.pytorch import structure, zoo
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.flops import Counter, not_counted
from accelbench.engines.pytorch.outputs import NetworkOutputs
from accelbench.engines.pytorch.precision import Observer
from accelbench.engines.pytorch.ranks import Ranks
from accelbench.errors import UserError
from accelbench.measuring.checks import MAX_CYCLE, OUTPUT, ObservedOutput
from accelbench.measuring.runner import Ask, Clock
from accelbench.schema.cell import Cell, TrainerSettings
from accelbench.schema.measurement import Observed, Work
from accelbench.schema.ranges import MAX_COUNT
from accelbench.schema.vocab import Mode

MAX_EPOCHS = 1000  # Lightning's default. Learning rate schedules use this number; the loop does not stop there.


class ModuleRun(NetworkRun):
    """The run of one cell with a user's LightningModule."""

    workload: UserModule  # type: ignore[assignment]
    work: Work | None = None
    last_result: Any = None  # the loss of the step after the measured ones, if training_step returned one

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend, ranks: Ranks) -> None:
        self.trainer_settings = cell.trainer or TrainerSettings()
        # Number of batches whose gradients are added up for one step of the optimiser.
        self.num_accumulated = self.trainer_settings.accumulate_grad_batches if cell.mode == Mode.train else 1
        if self.num_accumulated > 1:  # no breakdown: not every batch has an optimiser step
            cell = replace(cell, breakdown_s=0.0)
        super().__init__(cell, data_folder, backend, ranks)
        self.package = self.workload.package
        self.left_out: list[str] = []  # callbacks of the module that do not run
        self.is_plain = False
        if self.goal is not None:
            self.workload.check_validates()

    def new_workload(self) -> Any:
        return UserModule(self.cell)

    def new_module(self) -> Any:
        self.workload.count_batches(self.hooks_of_loop.mark)
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

    def leave_out_callbacks(self) -> None:
        """Removes those callbacks of the module that end the training or save files."""
        library = importlib.import_module(f"{self.package}.callbacks")
        callbacks = self.trainer.callbacks
        for callback in list(callbacks):
            if isinstance(callback, library.EarlyStopping | library.Checkpoint):
                callbacks.remove(callback)
                self.left_out.append(type(callback).__name__)

    def begin_loop(self) -> None:
        self.observer.handle.remove()
        self.observer = Observer(self.module)  # a new one: Lightning's setup may have made layers
        super().begin_loop()
        self.num_params = zoo.num_params(self.module)
        if self.trains and self.goal is None:
            self.trainer.fit_loop.max_epochs = -1  # no limit: the clock ends the loop; schedules exist already
            for config in self.trainer.lr_scheduler_configs:
                config.strict = False  # validation does not run: a schedule that needs its metric must not fail

    def plan_goal(self, goal: GoalRun) -> None:
        length = self.trainer.num_training_batches
        if length in (0, float("inf")):
            flag = self.workload.owner_flag
            raise UserError(f"{flag}: its train_dataloader has no length, which protocol=target needs: define __len__")
        goal.plan_calls(int(length))

    def begin_steady(self) -> None:
        super().begin_steady()
        self.hooks_of_loop.num_skipped = 0

    def after_window(self) -> Clock[None]:
        """Runs more steps after the timed window. Records the batch of one step, and counts the work of a step."""
        self._check_skipped()
        self.note_resources()
        yield from super().after_window()
        yield Ask(within=KEEPS_BATCH)
        self._note_step(self.workload.batches.last, self.hooks_of_loop.batch)
        self.work = self.known_work
        if not self.is_one_step and self.work is None:
            self.work = yield from self._count()

    def _note_step(self, loaded: Any, batch: Any) -> None:
        """Records the batch and the output of a step.

        `loaded` is the batch that the loader returned. `batch` is the batch that `training_step` or `predict_step` got.
        The module's hooks may have changed it.
        """
        outputs = self.hooks_of_loop.outputs
        self.observer.see(outputs)  # in training, `forward` may not run
        loss = outputs.get("loss") if self.trains and outputs else None
        if isinstance(loss, Tensor) and loss.numel() == 1:
            self.last_result = loss
        self.workload.batch_of_step = structure.on_host(batch)
        if not structure.num_rows(batch):
            self.observations.unchecked[OUTPUT] = "accelbench finds no tensors in the batches"
        first = next(zip(structure.tensors_in(loaded), structure.tensors_in(batch), strict=False), None)
        if first is None or self.cell.model.samples is not None:
            return
        before, after = (tensor.shape for tensor in first)
        if before[1:] == after[1:] and after[:1] < before[:1]:
            self.changes.append(f"the module's hooks removed {before[0] - after[0]} of the {before[0]} rows of a batch")

    def keep_last(self) -> None:
        if not self.trains and OUTPUT not in self.observations.unchecked:
            with self.observations.checking():
                super().keep_last()

    def observe_output(self) -> ObservedOutput:
        """Returns the output for an unseen batch. It is not compared with the output for a batch of the loader.

        The unseen batch has the same samples as that batch, in another order. So equal outputs may be right.
        """
        return replace(super().observe_output(), fed=None, output_of_fed=())

    def note_end(self) -> None:
        super().note_end()
        # With manual optimisation, the user's code decides over how many steps gradients are accumulated.
        self.observations.training.cycle = self.num_accumulated if self.module.automatic_optimization else MAX_CYCLE
        for name, asked in vars(self.trainer_settings).items():
            if (value := getattr(self.trainer, name)) != asked:
                self.changes.append(f"the user's code set trainer.{name}={value}, but the cell asked for {asked}")

    def samples_between(self, first: int, last: int) -> int:
        """Returns the number of samples in the batches `first` to `last` - 1."""
        return sum(self.workload.batches.sizes[first:last])

    def num_samples(self) -> dict[str, int]:
        """Returns a dict from the split to the number of samples in an epoch. It is empty if the number is unknown.

        The number is the counted number of samples in the last complete epoch. If no epoch was complete, the number is
        the length of the loader, multiplied by the batch size.
        """
        batches = self.workload.batches
        num = batches.num_of_epoch
        with suppress(Exception):  # an exception of the user's `__len__` must not lose the measurement
            num = num or len(batches.loader) * batches.sizes[0]
        split = "train" if self.trains else "test"
        return {split: num} if 0 < num <= MAX_COUNT else {}

    def _check_skipped(self) -> None:
        """Records how many steps trained nothing. Raises UserError if no step trained anything."""
        num, num_skipped = self.timing.num_steady_steps, self.hooks_of_loop.num_skipped
        why = f"training_step returned None in {num_skipped} of {num} measured steps: Lightning trains nothing then"
        if self.trains and num_skipped == num:
            raise UserError(f"{self.workload.flag}: {why}")
        if self.trains and num_skipped:
            self.changes.append(why)

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
        counter.note(self.observations.products)
        return counter.work(self.num_accumulated)

    def begin_validation(self) -> None:
        """Deletes the value of the target's metric, because `training_step` may have logged it."""
        self.trainer.callback_metrics.pop(self.cell.target.metric, None)

    def validated(self) -> None:
        """Records the metric that `validation_step` has logged. Raises UserError if it has logged none."""
        goal, name, logged = self.goal, self.cell.target.metric, self.trainer.callback_metrics
        assert goal is not None
        if name not in logged:
            names = ", ".join(sorted(logged)) or "nothing"
            raise UserError(f"target.metric={name}: {self.workload.flag} logs {names}: log {name} in validation_step")
        self.backend.wait()
        num = goal.num_calls
        num_samples = self.samples_between(0, num)
        goal.add(float(logged[name]), num, num_samples, num / goal.calls_of_epoch)
        if goal.is_over:
            goal.end(self.timing)
            self.note_resources()

    def observe(self) -> Observed:
        if self.observer.result is None:  # the user's `training_step` may not run `forward`
            self.observer.see(next(self.module.parameters()))
        loss = None if self.last_result is None else self.checked_loss(self.last_result.item())
        return self.observer.observed(self, loss=loss, work=self.work)

    def notes(self) -> Iterator[str]:
        yield from NetworkOutputs.notes(self)
        if self.left_out:
            yield f"callbacks that end the training or save files were left out: {', '.join(self.left_out)}"
