"""A LightningModule of the user, measured as Lightning's Trainer runs it, or trained with it to a target.

A measured step is one batch of the Trainer's own loop with everything that the loop does, such as the end of an epoch.
"""

import copy
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from accelbench.engines.lightning.loop import NEVER, ClockHooks, CountedLoader, Look, TargetHooks, callback, rows_left
from accelbench.engines.lightning.user_module import UserModule
from accelbench.engines.pytorch import structure, zoo
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.global_state import seed_generators
from accelbench.engines.pytorch.outputs import NetworkOutputs
from accelbench.engines.pytorch.own.workload import count_note, counted
from accelbench.engines.pytorch.precision import Observer, cast_tensor
from accelbench.engines.pytorch.training import TrainedNetwork, training_in_inference
from accelbench.engines.pytorch.work import Counter, busiest, not_counted
from accelbench.engines.target import TargetRun
from accelbench.errors import UserError
from accelbench.measuring.breakdown import breakdown
from accelbench.measuring.checks import OUTPUT, WEIGHTS, Output
from accelbench.measuring.runner import Ask, Clock
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

    is_plain = False  # type: ignore[assignment]
    loader: CountedLoader
    looked: Look  # of a step after the measured ones

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend) -> None:
        super().__init__(cell, data_folder, backend)
        self.counted: tuple[int, int] | None = None  # batches and the optimiser's steps before the steady state
        user = self.user_module
        self.hooks_of_loop = callback(user.package, ClockHooks, self._conduct(), backend, self._num_samples)
        user.trainer.callbacks.append(self.hooks_of_loop)

    def run_steps(self) -> None:
        """Has the Trainer run its loop, which is measured batch by batch."""
        user = self.user_module
        user.wrap_loader(self._counted)
        run = self.trainer.fit if self.trains else partial(self.trainer.predict, return_predictions=False)
        self.hooks_of_loop.run(lambda: run(self.module, datamodule=user.data))

    def _counted(self, loader: Any) -> CountedLoader:
        flag, count = self.user_module.owner_flag, self.user_module.count_samples
        self.loader = CountedLoader(loader, flag, self.cell.batch_size, count, endless=not self.trains)
        self.loader.mark = self.hooks_of_loop.mark
        return self.loader

    def _num_samples(self, first: int, last: int) -> int:
        return sum(self.loader.sizes[first:last])

    def _conduct(self) -> Clock[None]:
        """What happens in the loop, from its begin on."""
        self.user_module.begin()
        self.changes += self.user_module.changed_settings()
        self._note_built()
        self.backend.hold(torch.float32)  # between the steps: Lightning sets another around each
        yield from self.window(self.runner(None))
        self._check_counts()
        self.note_resources()
        if self.trains:
            with self.seen.checking(WEIGHTS):
                self._note_end()
        yield from self._break_down()
        yield from self._look()
        if not self.trains:
            yield from self._look_at_unseen()
        self.work = self.known_work
        if not self.is_one_step and self.work is None:
            self.work = yield from self._count()
        self.changes += self.user_module.changed_settings()

    def num_samples(self) -> dict[str, int]:
        """Those of whole batches of the loader, as it says itself: from them the time of epochs is estimated."""
        num = 0
        with suppress(Exception):  # a user's loader may raise anything, and was measured all the same
            num = len(self.loader.loader) * self.loader.sizes[0]
        is_known = 0 < num <= MAX_COUNT and not self.loader.ends_early
        return {"train" if self.trains else "test": num} if is_known else {}

    def begin_steady(self) -> None:
        super().begin_steady()
        if self.trains:
            self.counted = self.hooks_of_loop.num_steps, self.trainer.global_step

    def _note_end(self) -> None:
        training = self.seen.training
        self.trained.note_end(self.trainer.optimizers)
        training.cycle = self.user_module.num_accumulated if self.module.automatic_optimization else None
        training.gradients = None  # Lightning's loop may have set them to 0

    def _check_counts(self) -> None:
        """Notes a defect if steps trained nothing, or the optimiser made too few. Raises UserError: all skipped."""
        num_steps, first = self.hooks_of_loop.num_steps, self.timing.num_warmup_steps
        num = num_steps - first
        if num_skipped := sum(step >= first for step in self.hooks_of_loop.skipped):
            why = f"training_step returned None in {num_skipped} of {num} measured steps: Lightning trains nothing then"
            if num_skipped == num:
                raise UserError(f"{self.user_module.flag}: {why}")
            self.changes.append(why)
        if self.counted is not None and self.module.automatic_optimization:
            num_batches = num_steps - self.counted[0]
            made = self.trainer.global_step - self.counted[1]
            due = num_batches // self.user_module.asked.accumulate_grad_batches
            if made < due - 2:
                self.changes.append(f"its optimisers made {made} steps in {num_batches} batches, and {due} were due")

    def _break_down(self) -> Clock[None]:
        """Times the phases of further steps, and profiles one."""
        if self.limits.has_time_for_phases(self.timing.step_s):
            if self.user_module.num_accumulated == 1:  # else every second batch would meet the same ones of a cycle
                self.breakdown = yield from breakdown(self.backend, self.cell.breakdown_s)
            self.operators = yield from busiest(self.backend)

    def _look(self) -> Clock[None]:
        """Runs one more step, and looks at it."""
        self.looked = Look()
        yield Ask(within=self.looked)
        self.loaded = self.loader.last
        self.observer.see(None, self.looked.outputs)  # in training, forward may not run
        if self.cell.model.samples is None and (rows := rows_left(self.loaded, self.looked.batch)) is not None:
            self.changes.append(f"the module's hooks left {rows[0]} of the {rows[1]} rows of a batch")

    def _look_at_unseen(self) -> Clock[None]:
        """Runs a step on a batch of the loader, its samples in another order, whose output is compared."""
        if not structure.num_rows(self.loaded):
            self.seen.unchecked[OUTPUT] = "its batches hold no tensors that accelbench finds"
        self.seen.modes = training_in_inference(self.module)
        other = structure.varied(self.loaded)
        self.unseen = (copy.deepcopy(self.loaded), False) if other is None else (other, True)
        if self.is_one_step:
            return
        self.note_state(self.module)
        seed_generators(0)
        self.loader.given.append(structure.copied(self.unseen[0]))
        look = Look()
        yield Ask(within=look)
        self.output_of_unseen = structure.arrays_in(look.outputs)
        # What predict_step got: a module without a Trainer has no hooks that change a batch.
        self.given = structure.on_host(look.batch)
        self.keep_output()

    def _count(self) -> Clock[Work]:
        """What one step has to do, from further real ones: one cycle of accumulated gradients."""
        counter, num_steps = Counter(), self.user_module.num_accumulated
        try:
            for _ in range(num_steps):
                yield Ask(within=counter)
        except Exception as error:  # a user's module may raise anything
            return not_counted(error)
        products = self.seen.products
        products.flops, products.devices = dict(counter.flops_in), dict(counter.flops_on)
        products.uncounted = counter.uncounted
        return counter.work(num_steps)

    def plain_network(self) -> nn.Module:
        return self.module

    def unseen_batch(self) -> tuple[Any, bool]:
        return self.unseen

    def last_output(self) -> Output:
        return structure.arrays_in(self.looked.outputs)

    def measured_output(self, batch: Any) -> Output:
        return self.output_of_unseen

    def built_anew(self) -> nn.Module:
        return self.user_module.rebuilt()

    def computed_anew(self, network: nn.Module, batch: Any, dtype: torch.dtype) -> Any:
        given = structure.mapped(self.given, lambda tensor: cast_tensor(tensor.clone(), dtype))
        return self.user_module.predict(network, given)

    @property
    def loss(self) -> float | None:
        """What training_step returned; None if it returned none."""
        outputs = self.looked.outputs
        loss = outputs.get("loss") if self.trains and outputs else None
        return loss.item() if isinstance(loss, Tensor) and loss.numel() == 1 else None

    def observe(self) -> Observed:
        loss = None if self.loss is None else self.checked_loss(self.loss)
        return self.observer.observed(self, loss=loss, work=self.work)

    def notes(self) -> Iterator[str]:
        yield from super().notes()
        if note := count_note(
            self.cell.model, self.loader.sizes[0], self.cell.batch_size, structure.num_rows(self.loaded)
        ):
            yield note
        if self.trains and self.loss is None:
            yield "training_step returns no loss, so that only the weights were checked to be finite"


class ModuleTargetRun(_UsersRun):
    """A run of the Trainer's own loop to a target that validation_step logs; nothing of a step is timed by itself."""

    to_target: TargetRun

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend) -> None:
        super().__init__(cell, data_folder, backend)
        self.user_module.check_validates()
        self.num_samples_seen = 0

    def run_steps(self) -> None:
        """Has the Trainer fit the module, and call back."""
        trainer, epochs = self.trainer, self.cell.epochs
        trainer.limit_val_batches, trainer.fit_loop.max_epochs = 1.0, epochs
        trainer.check_val_every_n_epoch, trainer.val_check_interval = None, NEVER  # batches, of all epochs
        trainer.callbacks.append(callback(self.user_module.package, TargetHooks, self))
        trainer.fit(self.module, datamodule=self.user_module.data)
        if not self.to_target.is_over:
            raise UserError(f"{self.user_module.flag}: its training ended before it was evaluated at its end")
        self.changes += [*self.user_module.changed_settings(), *self.backend.changed()]
        self.trained.note_end(self.trainer.optimizers)
        self.seen.training.gradients = None

    def begin_loop(self) -> None:
        user, length = self.user_module, self.trainer.num_training_batches
        if length in (0, float("inf")):
            raise UserError(f"{user.owner_flag}: its train_dataloader tells no length, which protocol=target needs")
        self._note_built()
        self.seen.training.before = self.trained.states()
        self.to_target.plan_calls(int(length))

    def count(self, batch: Any) -> None:
        count = self.user_module.count_samples
        num = structure.num_rows(batch) if count is None else counted("model.samples", count, batch)
        if num > self.cell.batch_size or (not self.num_samples_seen and num < self.cell.batch_size):
            found = f"a batch has {num} samples, not batch_size={self.cell.batch_size}"
            raise UserError(f"{self.user_module.owner_flag}: {found}")
        self.num_samples_seen += num

    def begin_validation(self) -> None:
        self.trainer.callback_metrics.pop(self.cell.target.metric, None)  # what training_step may have logged

    def validated(self) -> None:
        to_target, name, logged = self.to_target, self.cell.target.metric, self.trainer.callback_metrics
        if name not in logged:
            known = ", ".join(sorted(logged)) or "nothing"
            raise UserError(f"target.metric={name}: {self.user_module.flag} logs {known}: log it in validation_step")
        self.backend.wait()
        num = to_target.num_calls
        epochs = num / to_target.calls_of_epoch
        to_target.add(float(logged[name]), to_target.evaluation_began_s, num, self.num_samples_seen, epochs)
        if to_target.is_over or to_target.is_cut or to_target.is_whole:
            to_target.is_over = True
            to_target.end(self.timing)
            self.note_resources()

    def num_samples(self) -> dict[str, int]:
        return {"train": self.num_samples_seen * self.to_target.calls_of_epoch // self.to_target.num_calls}

    def observe(self) -> Observed:
        if self.observer.result is None:  # its training_step may not run forward
            self.observer.see(None, next(self.module.parameters()))
        return self.observer.observed(self)
