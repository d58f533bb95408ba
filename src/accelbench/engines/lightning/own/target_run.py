"""A LightningModule of the user, trained to a target that its own validation_step logs.

The Trainer's own loop runs, with its validation where an evaluation is due; nothing of a step is timed by itself.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from accelbench.engines.cell_run import CellRun
from accelbench.engines.lightning import zoo
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.own.batch import counted
from accelbench.engines.lightning.own.user_module import UserModule
from accelbench.engines.lightning.precision import Observer
from accelbench.engines.lightning.structure import num_rows
from accelbench.engines.lightning.training import TrainedNetwork
from accelbench.engines.target import TargetRun, ends_of
from accelbench.errors import UserError
from accelbench.measuring import witness
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Observed
from accelbench.schema.vocab import Span


class ModuleTargetRun(CellRun):
    """One cell's run. The arguments are those of `CellRun`."""

    backend: Backend
    to_target: TargetRun
    fetches_inside = True

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend) -> None:
        super().__init__(cell, data_folder, backend)
        self.to_target.begin(Span.build)
        self.user_module = UserModule(cell, backend)
        self.module, self.trainer = self.user_module.module, self.user_module.trainer
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
        self.defects += [*self.user_module.changed_settings(), *self.backend.changed()]
        self.seen.training.end = self.trained.states()

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
        """Once the module and its optimisers are on the device."""
        user, length = self.user_module, self.trainer.num_training_batches
        if length in (0, float("inf")):
            raise UserError(f"{user.owner_flag}: its train_dataloader tells no length, which protocol=target needs")
        self.build_s, self.num_params = user.build_s, zoo.num_params(self.module)
        self.observer, self.trained = Observer(self.module), TrainedNetwork(self.module, self.seen.training)
        self.trained.begin()
        self.seen.training.start = self.trained.states()
        self.length, self.ends = int(length), ends_of(self.cell.target, self.cell.epochs, int(length))
        self.next_end = next(self.ends)
        witness.say(witness.Moment.begin)
        self.to_target.begin(Span.train)

    def _count(self, batch: Any) -> None:
        count = self.user_module.count_samples
        num = num_rows(batch) if count is None else counted("model.samples", count, batch)
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
            witness.say(witness.Moment.end)
            self.note_resources()
        else:
            self.next_end = next(self.ends)
            to_target.begin(Span.train)

    def num_samples(self) -> dict[str, int]:
        return {"train": self.num_samples_seen * self.length // self.num_batches}

    def observe(self) -> Observed:
        if self.observer.result is None:  # its training_step may not run forward
            self.observer.see(self.module, None, next(self.module.parameters()))
        return self.observer.observed(self)

    def notes(self) -> Iterator[str]:
        yield from self.user_module.notes()
        yield from self.backend.notes()
