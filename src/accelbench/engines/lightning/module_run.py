"""A LightningModule of the user, measured as Lightning's Trainer runs it, or trained with it to a target.

A measured step is one batch of the Trainer's own loop with everything that the loop does, such as the end of an epoch.
"""

import copy
import importlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from accelbench.engines.lightning import trainer_loop as loop
from accelbench.engines.lightning.user_module import UserModule
from accelbench.engines.pytorch import structure, zoo
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.global_state import seed_generators
from accelbench.engines.pytorch.outputs import NetworkOutputs
from accelbench.engines.pytorch.own.workload import count_note, counted
from accelbench.engines.pytorch.precision import Observer, cast_tensor
from accelbench.engines.pytorch.training import TrainedNetwork, training_in_inference
from accelbench.engines.pytorch.work import Counter, busiest, not_counted
from accelbench.engines.target import TargetRun, ends_of
from accelbench.errors import UserError
from accelbench.measuring.breakdown import breakdown
from accelbench.measuring.checks import OUTPUT, WEIGHTS, Output
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Observed, Work
from accelbench.schema.ranges import MAX_COUNT
from accelbench.schema.vocab import Span


class _UsersRun(NetworkOutputs):
    """A run of the user's module. The arguments are those of `CellRun`."""

    backend: Backend
    fetches_inside = True

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend) -> None:
        super().__init__(cell, data_folder, backend)
        if self.to_target is not None:
            self.to_target.begin(Span.build)
        self.user_module = UserModule(cell, backend)
        self.module, self.trainer = self.user_module.module, self.user_module.trainer

    def _note_built(self) -> None:
        """Once the module and its optimisers are on the device."""
        self.build_s, self.num_params = self.user_module.build_s, zoo.num_params(self.module)
        self.observer = Observer(self.module)
        self.hooks = [self.observer.handle]
        if self.trains:
            self.trained = TrainedNetwork(self.module, self.seen.training)

    def notes(self) -> Iterator[str]:
        yield from self.user_module.notes()
        yield from self.backend.notes()


class ModuleRun(_UsersRun):
    """One cell's run."""

    step: loop.LoopStep  # type: ignore[assignment]
    is_plain = False  # type: ignore[assignment]

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend) -> None:
        super().__init__(cell, data_folder, backend)
        flag, count = self.user_module.owner_flag, self.user_module.count_samples
        self.step = loop.LoopStep(self._loop, flag, cell.batch_size, count, endless=not self.trains)
        self.counted: tuple[int, int] | None = None  # batches and the optimiser's steps before the steady state

    def _loop(self) -> None:
        run = self.trainer.fit if self.trains else self.trainer.predict
        run(self.module, datamodule=self.user_module.data, **({} if self.trains else {"return_predictions": False}))

    def run_steps(self) -> None:
        """Starts the loop, measures it batch by batch, and stops it."""
        step = self.step
        self.user_module.wrap_loader(self._stepped)
        try:
            step.advance()  # up to the first batch
            self.user_module.begin()
            self.changes += self.user_module.changed_settings()
            self._note_built()
            self.backend.hold(torch.float32)  # between the steps: Lightning sets another around each
            with loop.noting_skipped(self.user_module.package, lambda: step.num_steps) as skipped:
                self.measure_window(step)
                self._check_counts(skipped)
                self.note_resources()
                if self.trains:
                    with self.seen.checking(WEIGHTS):
                        self._note_end()
                self._break_down()
                self.looked = self._probed()
                self.observer.see(None, self.looked.result)  # in training, forward may not run
                if self.cell.model.samples is None and (rows := self.looked.rows_left) is not None:
                    self.changes.append(f"the module's hooks left {rows[0]} of the {rows[1]} rows of a batch")
                self.work = self.work_of_step(self._count)
                if not self.trains:
                    self._keep_output()
                self.changes += self.user_module.changed_settings()
        finally:
            step.stop()

    def _stepped(self, loader: Any) -> loop.SteppedLoader:
        self.loader = loop.SteppedLoader(loader, self.step)
        return self.loader

    def num_samples(self) -> dict[str, int]:
        """Those of whole batches of the loader, as it says itself: from them the time of epochs is estimated."""
        num = 0
        with suppress(Exception):  # a user's loader may raise anything, and was measured all the same
            num = len(self.loader.loader) * self.step.sizes[0]
        is_known = 0 < num <= MAX_COUNT and not self.step.num_early_ends
        return {"train" if self.trains else "test": num} if is_known else {}

    def begin_steady(self) -> None:
        super().begin_steady()
        if self.trains:
            self.counted = self.step.num_steps, self.trainer.global_step

    def _note_end(self) -> None:
        training = self.seen.training
        self.trained.note_end(self.trainer.optimizers)
        training.cycle = self.user_module.num_accumulated if self.module.automatic_optimization else None
        training.gradients = None  # Lightning's loop may have set them to 0

    def _probed(self) -> loop.StepProbe:
        """Runs one more step, and looks at it."""
        look = loop.StepProbe()
        with loop.wrapped(self.trainer, look.around, (*loop.PHASES, loop.LOADED)):
            self.step.compute(None)
        self.backend.wait()
        return look

    def _check_counts(self, skipped: set[int]) -> None:
        """Notes a defect if steps trained nothing, or the optimiser made too few. Raises UserError: all skipped."""
        first, num = self.timing.num_warmup_steps, self.step.num_steps - self.timing.num_warmup_steps
        if num_skipped := sum(step >= first for step in skipped):
            why = f"training_step returned None in {num_skipped} of {num} measured steps: Lightning trains nothing then"
            if num_skipped == num:
                raise UserError(f"{self.user_module.flag}: {why}")
            self.changes.append(why)
        if self.counted is not None and self.module.automatic_optimization:
            num_batches = self.step.num_steps - self.counted[0]
            made = self.trainer.global_step - self.counted[1]
            due = num_batches // self.user_module.asked.accumulate_grad_batches
            if made < due - 2:
                self.changes.append(f"its optimisers made {made} steps in {num_batches} batches, and {due} were due")

    def _break_down(self) -> None:
        """Times the phases of further steps, and profiles one."""
        if self.limits.has_time_for_phases(self.timing.step_s):
            runner = self.runner(self.step)
            if self.user_module.num_accumulated == 1:  # else every second batch would meet the same ones of a cycle
                with loop.wrapped(self.trainer, loop.marking(self.step)):
                    self.breakdown = runner.drive(breakdown(self.backend, self.cell.breakdown_s))
            self.operators = runner.drive(busiest(self.backend))

    def _count(self) -> Work:
        """What one step has to do, from further real ones: one cycle of accumulated gradients."""
        counter, num_steps = Counter(), self.user_module.num_accumulated
        try:
            with loop.wrapped(self.trainer, loop.counting(counter)):
                for _ in range(num_steps):
                    self.step.compute(None)
        except Exception as error:  # a user's module may raise anything
            return not_counted(error)
        products = self.seen.products
        products.flops, products.devices = dict(counter.flops_in), dict(counter.flops_on)
        products.uncounted = counter.uncounted
        return counter.work(num_steps)

    def _keep_output(self) -> None:
        if not structure.num_rows(self.looked.batch):
            self.seen.unchecked[OUTPUT] = "its batches hold no tensors that accelbench finds"
        self.seen.modes = training_in_inference(self.module)
        self.keep_output()

    def plain_network(self) -> nn.Module:
        return self.module

    def unseen_batch(self) -> tuple[Any, bool]:
        """A batch of the loader, its samples in another order."""
        other = structure.varied(self.looked.batch)
        return (copy.deepcopy(self.looked.batch), False) if other is None else (other, True)

    def last_output(self) -> Output:
        return structure.arrays_in(self.looked.result)

    def measured_output(self, batch: Any) -> Output:
        self.note_state(self.module)
        seed_generators(0)
        self.step.given.append(structure.refilled(copy.deepcopy(self.looked.batch), structure.tensors_in(batch)))
        look = self._probed()
        # What predict_step got: a module without a Trainer has no hooks that change a batch.
        self.given = structure.on_host(look.given)
        return structure.arrays_in(look.result)

    def built_anew(self) -> nn.Module:
        return self.user_module.rebuilt()

    def computed_anew(self, network: nn.Module, batch: Any, dtype: torch.dtype) -> Any:
        given = structure.mapped(self.given, lambda tensor: cast_tensor(tensor.clone(), dtype))
        return self.user_module.predict(network, given)

    def observe(self) -> Observed:
        loss = None if self.looked.loss is None else self.checked_loss(self.looked.loss)
        return self.observer.observed(self, loss=loss, work=self.work)

    def notes(self) -> Iterator[str]:
        yield from super().notes()
        num_rows = structure.num_rows(self.looked.loaded)
        if note := count_note(self.cell.model, self.step.sizes[0], self.cell.batch_size, num_rows):
            yield note
        if self.trains and self.looked.loss is None:
            yield "training_step returns no loss, so that only the weights were checked to be finite"


class ModuleTargetRun(_UsersRun):
    """A run of the Trainer's own loop to a target that validation_step logs; nothing of a step is timed by itself."""

    to_target: TargetRun

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend) -> None:
        super().__init__(cell, data_folder, backend)
        self.user_module.check_validates()
        self.num_batches = self.num_samples_seen = 0

    def run_steps(self) -> None:
        """Has the Trainer fit the module, and call back."""
        trainer, epochs = self.trainer, self.cell.epochs
        trainer.limit_val_batches, trainer.fit_loop.max_epochs = 1.0, epochs
        trainer.fit_loop.epoch_loop._should_check_val_fx = lambda fetcher: self._is_due()
        trainer.callbacks.append(self._callback())
        trainer.fit(self.module, datamodule=self.user_module.data)
        if not self.to_target.is_over:
            raise UserError(f"{self.user_module.flag}: its training ended before it was evaluated at its end")
        self.changes += [*self.user_module.changed_settings(), *self.backend.changed()]
        self.trained.note_end(self.trainer.optimizers)
        self.seen.training.gradients = None

    def _callback(self) -> Any:
        """Of the Trainer's package, which calls only its own."""
        run = self

        class Marks(importlib.import_module(self.user_module.package).Callback):  # type: ignore[misc]
            def on_train_start(self, *_: Any) -> None:
                run._begin()

            def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, *_: Any) -> None:
                run._count(batch)

            def on_validation_end(self, trainer: Any, *_: Any) -> None:
                run._evaluated(trainer.callback_metrics)

        return Marks()

    def _begin(self) -> None:
        user, length = self.user_module, self.trainer.num_training_batches
        if length in (0, float("inf")):
            raise UserError(f"{user.owner_flag}: its train_dataloader tells no length, which protocol=target needs")
        self._note_built()
        self.seen.training.before = self.trained.states()
        self.length, self.ends = int(length), ends_of(self.cell.target, self.cell.epochs, int(length))
        self.next_end = next(self.ends)
        self.to_target.begin(Span.train)

    def _count(self, batch: Any) -> None:
        count = self.user_module.count_samples
        num = structure.num_rows(batch) if count is None else counted("model.samples", count, batch)
        if num > self.cell.batch_size or (not self.num_batches and num < self.cell.batch_size):
            found = f"a batch has {num} samples, not batch_size={self.cell.batch_size}"
            raise UserError(f"{self.user_module.owner_flag}: {found}")
        self.num_batches, self.num_samples_seen = self.num_batches + 1, self.num_samples_seen + num

    def _is_due(self) -> bool:
        """Whether the Trainer is to validate now; with that the interval of training ends."""
        if self.to_target.is_over or (self.num_batches < self.next_end and not self.to_target.is_late()):
            return False
        self.backend.wait()
        self.trainer.callback_metrics.pop(self.cell.target.metric, None)  # what training_step may have logged
        self.to_target.begin(Span.evaluate)
        self.began_s = self.to_target.now_s
        return True

    def _evaluated(self, logged: dict[str, Any]) -> None:
        to_target, name = self.to_target, self.cell.target.metric
        if name not in logged:
            known = ", ".join(sorted(logged)) or "nothing"
            raise UserError(f"target.metric={name}: {self.user_module.flag} logs {known}: log it in validation_step")
        self.backend.wait()
        value = float(logged[name])
        is_last, epochs = self.num_batches >= self.cell.epochs * self.length, self.num_batches / self.length
        to_target.add(value, self.began_s, self.num_batches, self.num_samples_seen, epochs)
        if to_target.is_over or to_target.is_cut or is_last:
            to_target.is_over = self.trainer.should_stop = True
            to_target.end(self.timing)
            self.note_resources()
        else:
            self.next_end = next(self.ends)
            to_target.begin(Span.train)

    def num_samples(self) -> dict[str, int]:
        return {"train": self.num_samples_seen * self.length // self.num_batches}

    def observe(self) -> Observed:
        if self.observer.result is None:  # its training_step may not run forward
            self.observer.see(None, next(self.module.parameters()))
        return self.observer.observed(self)
