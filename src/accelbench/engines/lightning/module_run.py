"""A LightningModule of the user, measured as Lightning's Trainer runs it, or trained with it to a target.

A measured step is one batch of the Trainer's own loop with everything that the loop does, such as the end of an epoch.
"""

import copy
import importlib
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from accelbench.engines.lightning.loop import LOOK, ClockHooks, TargetHooks, callback
from accelbench.engines.lightning.trainer import trainer_for
from accelbench.engines.lightning.user_module import UserModule
from accelbench.engines.pytorch import structure, zoo
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.global_state import seed_generators
from accelbench.engines.pytorch.outputs import NetworkOutputs
from accelbench.engines.pytorch.own.workload import count_note
from accelbench.engines.pytorch.precision import Observer
from accelbench.engines.pytorch.training import TrainedNetwork, training_in_inference
from accelbench.engines.pytorch.work import Counter, busiest, not_counted
from accelbench.engines.target import TargetRun
from accelbench.errors import UserError
from accelbench.measuring.breakdown import breakdown
from accelbench.measuring.checks import OUTPUT, WEIGHTS, Measured
from accelbench.measuring.runner import Ask, Clock
from accelbench.schema.cell import Cell, TrainerSettings
from accelbench.schema.measurement import Observed, Work
from accelbench.schema.ranges import MAX_COUNT
from accelbench.schema.vocab import Span

# Of the Trainer: what the module's code may set, and what the cell asks for by the same name.
STEP_SETTINGS = ("accumulate_grad_batches", "gradient_clip_val")
MAX_EPOCHS = 1000  # Lightning's default, from which schedules are made; the loop goes on after it


class ModuleRun(NetworkOutputs):
    """One cell's run. The arguments are those of `CellRun`."""

    backend: Backend
    fetches_inside = True
    is_plain = False  # type: ignore[assignment]
    work: Work | None = None
    outputs: Any = None  # of the step after the measured ones

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend) -> None:
        super().__init__(cell, data_folder, backend)
        if self.to_target is not None:
            self.to_target.begin(Span.build)
        self.user_module = user = UserModule(cell)
        self.module, self.build_s = user.module, user.build_s
        if self.to_target is not None:
            user.check_validates()
        self.asked = cell.trainer or TrainerSettings()
        # Batches whose gradients make one step of the optimiser.
        self.num_accumulated = self.asked.accumulate_grad_batches if self.trains else 1
        self.hooks_of_loop = callback(user.package, TargetHooks if self.to_target else ClockHooks, self)
        user.count_batches(self.hooks_of_loop.mark)
        self.trainer = self._trainer(user.package)

    def _trainer(self, package: str) -> Any:
        made = trainer_for(
            package,
            self.cell.precision,
            self.backend,
            devices=1,
            max_epochs=self.cell.epochs if self.to_target else MAX_EPOCHS,
            **{name: getattr(self.asked, name) for name in STEP_SETTINGS},
            limit_val_batches=1.0 if self.to_target else 0,
            # A logger that drops everything stands in, so that `self.logger.experiment` works.
            logger=importlib.import_module(f"{package}.loggers.logger").DummyLogger(),
            callbacks=[self.hooks_of_loop],
        )
        setup = made.strategy.setup  # puts the module and its optimisers onto the device

        def timed(trainer: Any) -> None:
            start = time.perf_counter()
            setup(trainer)
            self.build_s += time.perf_counter() - start

        made.strategy.setup = timed
        return made

    def run_steps(self) -> None:
        """Has the Trainer run its loop, which is measured batch by batch, or evaluated at intervals."""
        loop = self.trainer.fit if self.trains else partial(self.trainer.predict, return_predictions=False)
        loop = partial(loop, self.module, datamodule=self.user_module.data)
        if self.to_target is None:
            self.hooks_of_loop.drive(loop)
        else:
            loop()
            self._end_target(self.to_target)
        self.changes += self._changed_settings()

    def _end_target(self, to_target: TargetRun) -> None:
        if not to_target.is_over:
            raise UserError(f"{self.user_module.flag}: its training ended before it was evaluated at its end")
        self.changes += self.backend.changed()
        self._note_end()

    def begin_loop(self) -> None:
        """Begins with what is measured: the module and its optimisers are on the device."""
        self.num_params = zoo.num_params(self.module)
        self.observer = Observer(self.module)
        self.hooks = [self.observer.handle]
        self.backend.hold(torch.float32)  # between the steps: Lightning sets another around each
        if self.trains:
            self.trained = TrainedNetwork(self.module, self.seen.training)
        if self.to_target is not None:
            length = self.trainer.num_training_batches
            if length in (0, float("inf")):
                flag = self.user_module.owner_flag
                raise UserError(f"{flag}: its train_dataloader tells no length, which protocol=target needs")
            self.seen.training.before = self.trained.states()
            self.to_target.plan_calls(int(length))
        elif self.trains:
            self.trainer.fit_loop.max_epochs = -1  # schedules are made: the clock ends the loop
            for config in self.trainer.lr_scheduler_configs:
                config.strict = False  # no error without a metric of validation, which does not run

    def conduct(self) -> Clock[None]:
        """What happens in the loop, from its begin on."""
        self.begin_loop()
        yield from self.window(self.runner(None))
        self._check_skipped()
        self.note_resources()
        if self.trains:
            with self.seen.checking(WEIGHTS):
                self._note_end()
        if self.limits.has_time_for_phases(self.timing.step_s):
            if self.num_accumulated == 1:  # else every second batch would meet the same ones of a cycle
                self.breakdown = yield from breakdown(self.backend, self.cell.breakdown_s)
            self.operators = yield from busiest(self.backend)
        yield from self._look()
        self.work = self.known_work
        if not self.is_one_step and self.work is None:
            self.work = yield from self._count()

    def begin_steady(self) -> None:
        super().begin_steady()
        self.hooks_of_loop.num_skipped = 0

    def samples_between(self, first: int, last: int) -> int:
        """Samples of the batches from one to before the other."""
        return sum(self.user_module.batches.sizes[first:last])

    def num_samples(self) -> dict[str, int]:
        """Those of the loader's last whole epoch; else of its batches, each taken as whole, if it has a length."""
        batches = self.user_module.batches
        num = batches.num_of_epoch
        with suppress(Exception):  # a user's loader may raise anything, and was measured all the same
            num = num or len(batches.loader) * batches.sizes[0]
        return {"train" if self.trains else "test": num} if 0 < num <= MAX_COUNT else {}

    def _changed_settings(self) -> Iterator[str]:
        for name in STEP_SETTINGS:
            now, asked = getattr(self.trainer, name), getattr(self.asked, name)
            if now != asked:
                yield f"its code set trainer.{name}={now}, and {asked} was asked for"

    def _note_end(self) -> None:
        training = self.seen.training
        self.trained.note_end(self.trainer.optimizers)
        training.cycle = self.num_accumulated if self.module.automatic_optimization else None
        training.gradients = None  # Lightning's loop may have set them to 0

    def _check_skipped(self) -> None:
        """Notes steps that trained nothing. Raises UserError: none of them did."""
        num, num_skipped = self.timing.num_steady_steps, self.hooks_of_loop.num_skipped
        why = f"training_step returned None in {num_skipped} of {num} measured steps: Lightning trains nothing then"
        if self.trains and num_skipped == num:
            raise UserError(f"{self.user_module.flag}: {why}")
        if self.trains and num_skipped:
            self.changes.append(why)

    def _look(self) -> Clock[None]:
        """Runs one more step, and looks at it. In inference it gets a batch in another order, and is compared."""
        batches, hooks = self.user_module.batches, self.hooks_of_loop
        if not self.trains:
            output_of_fed = structure.arrays_in(hooks.outputs)
            unseen = structure.varied(batches.last)
            is_unseen = unseen is not None
            batches.given.append(structure.copied(unseen) if is_unseen else copy.deepcopy(batches.last))
            self.seen.modes = training_in_inference(self.module)
            self.note_state(self.module)
            seed_generators(0)
        yield Ask(within=LOOK)
        self.outputs = hooks.outputs
        self.observer.see(None, self.outputs)  # in training, forward may not run
        self._check_rows(batches.last, hooks.batch)
        if self.trains or self.is_one_step:
            return
        if not structure.num_rows(batches.last):
            self.seen.unchecked[OUTPUT] = "its batches hold no tensors that accelbench finds"
            return
        # What predict_step got: a module without a Trainer has no hooks that change a batch.
        given = structure.on_host(hooks.batch)
        output = structure.arrays_in(self.outputs)
        self.measured.append(Measured(given, output, None, output_of_fed, is_unseen, self.state))

    def _check_rows(self, loaded: Any, given: Any) -> None:
        """Notes that hooks of the module took rows away, as far as the first tensor of a batch tells."""
        first = next(zip(structure.tensors_in(loaded), structure.tensors_in(given), strict=False), None)
        if first is None or self.cell.model.samples is not None:
            return
        before, after = (tensor.shape for tensor in first)
        if before[1:] == after[1:] and after[:1] < before[:1]:
            self.changes.append(f"the module's hooks left {after[0]} of the {before[0]} rows of a batch")

    def _count(self) -> Clock[Work]:
        """What one step has to do, from further real ones: one cycle of accumulated gradients."""
        counter = Counter()
        try:
            for _ in range(self.num_accumulated):
                yield Ask(within=counter)
        except Exception as error:  # a user's module may raise anything
            return not_counted(error)
        products = self.seen.products
        products.flops, products.devices = dict(counter.flops_in), dict(counter.flops_on)
        products.uncounted = counter.uncounted
        return counter.work(self.num_accumulated)

    def begin_validation(self) -> None:
        """Drops what training_step may have logged by the target's name."""
        self.trainer.callback_metrics.pop(self.cell.target.metric, None)

    def validated(self) -> None:
        """Notes what validation_step has logged."""
        to_target, name, logged = self.to_target, self.cell.target.metric, self.trainer.callback_metrics
        assert to_target is not None
        if name not in logged:
            known = ", ".join(sorted(logged)) or "nothing"
            raise UserError(f"target.metric={name}: {self.user_module.flag} logs {known}: log it in validation_step")
        self.backend.wait()
        num = to_target.num_calls
        num_samples = self.samples_between(0, num)
        to_target.add(float(logged[name]), num, num_samples, num / to_target.calls_of_epoch)
        if to_target.is_over:
            to_target.end(self.timing)
            self.note_resources()

    def plain_network(self) -> nn.Module:
        return self.module

    def built_anew(self) -> nn.Module:
        return self.user_module.rebuilt()

    def computed_anew(self, network: nn.Module, batch: Any, dtype: torch.dtype) -> Any:
        return self.user_module.predict(network, batch)

    @property
    def loss(self) -> float | None:
        """What training_step returned; None if it returned none, and of a training to a target."""
        loss = self.outputs.get("loss") if self.trains and self.outputs else None
        return loss.item() if isinstance(loss, Tensor) and loss.numel() == 1 else None

    def observe(self) -> Observed:
        if self.observer.result is None:  # its training_step may not run forward
            self.observer.see(None, next(self.module.parameters()))
        loss = None if self.loss is None else self.checked_loss(self.loss)
        return self.observer.observed(self, loss=loss, work=self.work)

    def notes(self) -> Iterator[str]:
        yield from self.user_module.notes()
        yield from self.backend.notes()
        if self.to_target is not None:
            return
        batches = self.user_module.batches
        num_rows = structure.num_rows(batches.last)
        if note := count_note(self.cell.model, batches.sizes[0], self.cell.batch_size, num_rows):
            yield note
        if self.trains and self.loss is None:
            yield "training_step returns no loss, so that only the weights were checked to be finite"
