"""A LightningModule of the user, measured as Lightning's Trainer runs it.

The Trainer's own loop runs, with the module's own training_step, optimisers and hooks, in a coroutine (`baton`). Its
loader waits for the clock before each batch (`loader`), so that a step is one batch of the loop with everything that
the loop does, such as the end of an epoch.
"""

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from random import SystemRandom
from statistics import median
from typing import Any

import torch
from torch import Tensor

from accelbench.engines.cell_run import CellRun
from accelbench.engines.lightning import zoo
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.busiest import busiest
from accelbench.engines.lightning.denormals import Denormals
from accelbench.engines.lightning.outputs import (
    LAZY,
    all_finite,
    computes_when_read,
    described,
    seeded,
    size_of,
)
from accelbench.engines.lightning.own.lightning_module.baton import Baton
from accelbench.engines.lightning.own.lightning_module.loader import SwitchingLoader, unmarked
from accelbench.engines.lightning.own.lightning_module.looking import Looks
from accelbench.engines.lightning.own.lightning_module.sections import counting, marking, wrapped
from accelbench.engines.lightning.own.lightning_module.skipped import Skipped
from accelbench.engines.lightning.own.lightning_module.subject import Subject
from accelbench.engines.lightning.precision import Observer
from accelbench.engines.lightning.structure import mapped, mixed, num_rows, reordered, tensors_in
from accelbench.engines.lightning.training import (
    evaluating,
    is_coarse,
    noting_gradients,
    states,
    trainable,
    training_in_inference,
)
from accelbench.engines.lightning.work import Counter, not_counted
from accelbench.engines.observed import Observed
from accelbench.errors import UnsupportedError, UserError
from accelbench.measuring import clock
from accelbench.measuring.breakdown import has_time, measure_breakdown
from accelbench.measuring.output_check import MAX_WHY, Output
from accelbench.measuring.replay import num_batches, replay
from accelbench.measuring.training import States
from accelbench.schema.cell import Cell
from accelbench.schema.text import beginning, message_of, one_line
from accelbench.schema.vocab import XLA, Phase
from accelbench.schema.work import Work


class LoopStep:
    """One batch of Lightning's loop, as the clock sees it: everything happens inside `compute`."""

    def __init__(self, baton: Baton, loader: SwitchingLoader) -> None:
        self.pass_baton, self.loader = baton.step, loader
        self.sizes = loader.sizes.sizes
        self.num_steps = 0
        self.mark: Callable[[Phase], None] = unmarked

    def fetch(self) -> None:
        """Nothing: the loop fetches its batch."""

    def copy_in(self, batch: None) -> None:
        """Nothing: the loop copies its batch."""

    def compute(self, batch: None) -> None:
        """Runs the next batch. A step of the loop that finds the loader's end instead is a part of the step after it.

        Raises:
            UserError: the loader ended again before it gave a batch.
        """
        num_ends = self.loader.num_early_ends
        self.pass_baton()
        if self.loader.num_early_ends > num_ends:
            self.pass_baton()
            if self.loader.num_early_ends > num_ends + 1:
                raise UserError(f"{self.loader.sizes.flag}: its loader gave no batch in a whole epoch")
        self.num_steps += 1

    def copy_out(self, result: None) -> None:
        """Nothing: the loop leaves its results on the device."""

    def num_samples(self, batch: None) -> int:
        """Samples in the batch that runs next."""
        return self.sizes[min(self.num_steps, len(self.sizes) - 1)]

    def samples_of_last(self, num_steps: int) -> int:
        """Samples in the batches of the last steps together."""
        return sum(self.sizes[self.num_steps - num_steps : self.num_steps])


class ModuleRun(CellRun):
    """One cell's run. The arguments are those of `CellRun`."""

    backend: Backend
    observer: Observer

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend) -> None:
        if cell.devices > 1 or cell.device in XLA:
            raise UnsupportedError("model=lightning: runs on one device, the CPU or a GPU")
        super().__init__(cell, data_folder, backend)
        if self.fits:
            raise UnsupportedError("model=lightning: protocol=fit needs a test set: use protocol=window or steps")
        self.subject = Subject(cell, backend)
        self.trainer = self.subject.trainer
        self.baton = Baton(self._loop)
        self.loader: SwitchingLoader
        self.looked = Looks()
        self.denormals = Denormals()
        self.work: Work | None
        self.finite = True
        self.unchecked: str | None = None  # why outputs were not checked
        self.called: dict[int, Any] = {}  # id of a compared batch -> what predict_step got for it, on the CPU
        self.kept_alive: list[Any] = []  # so that no other batch gets the id of one of them
        self.timed_size = 0  # rows of the output that was looked at in the steady state
        self.asked_at_start: dict[str, Any]

    @property
    def fetches_inside(self) -> bool:
        """The loop fetches its batches."""
        return True

    def _loop(self) -> None:
        """Runs the Trainer, whose loader waits for the clock."""
        subject = self.subject
        run = self.trainer.fit if self.trains else self.trainer.predict
        more = {} if self.trains else {"return_predictions": False}
        run(subject.module, datamodule=subject.data, **more)

    def _switching(self, loader: Any) -> SwitchingLoader:
        self.loader = SwitchingLoader(
            loader, self.baton.wait_for_step, self.subject.batch_sizes, endless=not self.trains
        )
        return self.loader

    def run_steps(self) -> None:
        """Starts the loop, measures it batch by batch, and stops it."""
        self.subject.wrap_loader(self._switching)
        try:
            self.baton.step()  # up to the first batch
            self._note_built()
            step = self.step = LoopStep(self.baton, self.loader)
            skipped = Skipped(lambda: step.num_steps)
            with skipped.noted(self.subject.package):
                self.measure_window(step)
            self.defects += skipped.defects(self.subject.flag, self.timing.num_warmup_steps, step.num_steps)
            self.note_resources()
            if self.trains:
                self.training.end = self._states()
            self._break_down(step)
            self._look()
            if self.backend.torch_type == "cpu" and not self.backend.flushes_denormals:
                self.denormals.look_at_weights(self.subject.module, next(iter(self.trainer.optimizers), None))
            self.subject.note_schedulers()
            self.work = self.work_of_step(self._count)
            if not self.is_one_step and has_time(median(self.timing.latency_s), self.cell.timeout_s):
                self._look_further(median(self.timing.latency_s))
            self.defects += self.subject.changed_settings(self.asked_at_start)
            if not self.trains:
                self._keep_outputs()
        finally:
            self.baton.stop()

    def _note_built(self) -> None:
        """Once the module and its optimisers are on the device."""
        self.build_s = self.subject.build_s
        self.subject.check_set_up()
        self.num_params = zoo.num_params(self.subject.module)
        self.observer = Observer(self.subject.module)
        self.asked_at_start = self.subject.settings()
        self.training.names = list(trainable(self.subject.module)) if self.trains else ()
        self.backend.hold(torch.float32)  # between the steps: Lightning sets another around each

    def watch(self, step: LoopStep) -> clock.Watch:
        """This run."""
        return self

    def start(self) -> None:
        """See `clock.Watch`."""
        if self.trains:
            self.training.start = self._states()

    def look(self, batch: None) -> None:
        """See `clock.Watch`: looks at one more step, which is like those that are timed."""
        look = self._looked_step()
        if self.trains:
            self.training.looked = self._states()
        self.timed = look.batch, [] if self.trains else self._described(look)

    def _looked_step(self) -> Looks:
        look, self.loader.keeps = Looks(), True
        with wrapped(self.trainer, look.wrap(self.subject.module, None)):
            self.step.compute(None)
        self.backend.wait()
        look.batch, self.loader.keeps = self.loader.last, False
        if computes_when_read(look.result):
            self.defects.append(LAZY)
        if (cropped := look.cropped()) is not None:
            self.defects.append(cropped)
        return look

    def _states(self) -> States:
        return states(
            {name: each for name, each in self.subject.module.named_parameters() if name in self.training.names}
        )

    def _look_further(self, latency_s: float) -> None:
        """Runs further steps on batches that were never fed: what they train and keep."""
        if self.trains:
            parameters = trainable(self.subject.module)
            self.training.is_coarse = is_coarse(parameters)
            self.training.sizes = {name: each.numel() for name, each in parameters.items()}
            self.training.learning_rates = [
                group["lr"] for optimizer in self.trainer.optimizers for group in optimizer.param_groups
            ]
            self.training.evaluating = evaluating(self.subject.module)
        if self.timed is not None and next(tensors_in(self.timed[0]), None) is not None:
            fed, num = self.timed[0], num_batches(latency_s)
            self.replayed = replay(
                lambda: [copy.deepcopy(fed) for _ in range(num)],
                lambda: [self._unseen(fed) for _ in range(num)],
                self._seconds,
                latency_s if num == 1 and self.backend.on_host else None,
            )
        if self.trains:
            self.training.later = self._states()

    def _seconds(self, batches: Sequence[Any]) -> float:
        """How long steps of the loop take whose loader gives these batches."""
        start = time.perf_counter()
        for batch in batches:
            self.loader.given.append(batch)
            self.step.compute(None)
        self.backend.wait()
        return time.perf_counter() - start

    def _unseen(self, batch: Any) -> Any:
        """The samples of a batch in another order, their floating-point numbers changed by a thousandth."""
        num = num_rows(batch)
        by = SystemRandom().randrange(1, num) if num > 1 else 0

        def changed(tensor: Tensor) -> Tensor:
            return tensor * SystemRandom().uniform(0.998, 0.999) if tensor.is_floating_point() else tensor

        order = [(row + by) % num for row in range(num)]
        return mapped(reordered(copy.deepcopy(batch), order), changed)

    def _break_down(self, step: LoopStep) -> None:
        """Times the phases of further steps, and profiles one."""
        cell = self.cell
        if not cell.breakdown_s or not has_time(median(self.timing.latency_s), cell.timeout_s):
            return
        if self.subject.num_accumulated == 1:  # else every second batch would meet the same ones of a cycle

            def mark(phase: Phase) -> None:
                step.mark(phase)

            self.loader.mark = mark
            with wrapped(self.trainer, marking(mark)):
                self.breakdown = measure_breakdown(step, self.backend, cell.breakdown_s)
            self.loader.mark = unmarked
        self.operators = busiest(step, self.backend)

    def _look(self) -> None:
        """Looks at one more step: its loss or output, and what it computes in if no layer showed that."""
        observer = None if self.observer.has_seen else self.observer
        with wrapped(self.trainer, self.looked.wrap(self.subject.module, observer)):
            self.step.compute(None)
        self.backend.wait()
        results = [*tensors_in(self.looked.result)]
        if self.trains:
            results += self.subject.module.parameters()
        self.finite = all_finite(results)

    def _count(self) -> Work:
        """What one step has to do, from further real ones: one cycle of accumulated gradients."""
        counter = Counter()
        num_steps = self.subject.num_accumulated
        noting = noting_gradients(trainable(self.subject.module), self.training) if self.trains else nullcontext()
        try:
            with wrapped(self.trainer, counting(counter)), noting:
                for _ in range(num_steps):
                    self.step.compute(None)
        except Exception as error:  # a user's module may raise anything
            return not_counted(error)
        self.products.flops, self.products.uncounted = dict(counter.flops_in), counter.uncounted
        self.training.num_later = num_steps
        return counter.work(num_steps)

    def _keep_outputs(self) -> None:
        try:
            if not num_rows(self.looked.batch):
                raise UnsupportedError("its batches hold no tensors that accelbench finds")
            self.modes = training_in_inference(self.subject.module)
            self.keep_outputs(self._size(self.looked), None)
        except Exception as error:  # a user's module may raise anything: it was measured all the same
            self.unchecked = beginning(one_line(message_of(error)), MAX_WHY)

    def compared_inputs(self) -> tuple[Any, Any]:
        """A batch of the loader, and its samples changed and in another order."""
        if self.timed is None or self._size(self.looked) != self.timed_size:
            self.timed = None
        fed = copy.deepcopy(self.looked.batch if self.timed is None else self.timed[0])
        return fed, self._unseen(fed)

    @property
    def same_random(self) -> bool:  # type: ignore[override]
        """On the CPU in fp32: in other formats torch draws other numbers."""
        return self.is_reference

    def seed_output(self, number: int) -> None:
        """All of torch's generators."""
        torch.manual_seed(number)

    def reordered_inputs(self, batch: Any, order: Sequence[int]) -> Any:
        """All tensors with as many rows as the batch has."""
        return reordered(copy.deepcopy(batch), order) if num_rows(batch) == len(order) else None

    def mixed_inputs(self, batch: Any, other: Any, rows: Sequence[int]) -> Any:
        """All tensors with as many rows as the batch has."""
        return mixed(batch, other, rows) if num_rows(batch) == self.timed_size else None

    def measured_output(self, batch: Any, rows: Sequence[int]) -> Output:
        """From a further step of the loop, whose loader gives this batch."""
        self.loader.given.append(copy.deepcopy(batch))
        look = self._looked_step()
        self.called[id(batch)] = mapped(look.given, _on_cpu)
        self.kept_alive.append(batch)
        return described(look.result, self._size(look), rows)

    def reference_outputs(self, batches: Sequence[Any], *, other: bool = False, same: bool = False) -> list[Output]:
        """From a newly built module, without a Trainer, for what predict_step got."""
        predict = self.subject.new_predict(other=other)
        with torch.no_grad():
            outputs = seeded((mapped(self.called[id(each)], Tensor.clone) for each in batches), predict)
        return [described(output, self.timed_size, self.rows) for output in outputs]

    def _size(self, look: Looks) -> int:
        """The rows of an output: as many as the batch has, or as the user counts samples."""
        rows = num_rows(look.batch)
        counted = self.subject.batch_sizes.sizes[-1]
        return size_of(look.result, (rows, counted)) if self.cell.model.samples else rows

    def _described(self, look: Looks) -> Output:
        self.timed_size = self._size(look)
        return described(look.result, self.timed_size, self.rows_of(self.timed_size)) if self.timed_size else []

    def observe(self) -> Observed:
        """What the steps showed."""
        if not self.finite:
            self.mark_not_finite()
        loss, device = self.looked.loss, self.observer.device()
        return Observed(
            device=self.backend.ran_on(device.type),
            device_name=self.device_name(),
            precision=self.observer.precision(),
            num_devices=1,
            threads=torch.get_num_threads(),
            loss=None if loss is None else self.checked_loss(loss),
            work=self.work,
            cudnn_benchmark=self.backend.cudnn_benchmark(),
        )

    def notes(self) -> Iterator[str]:
        """What of the user's ran, and what did not."""
        yield from self.subject.notes()
        yield from self.backend.notes()
        if self.trains and self.looked.loss is None:
            yield "training_step returns no loss, so that only the weights were checked to be finite"
        if self.cell.breakdown_s and self.subject.num_accumulated > 1:
            yield "steps have no phases: with accumulated gradients they differ from batch to batch"

    def warnings(self) -> Iterator[str]:
        """That outputs could not be checked, and slow numbers."""
        yield from self.denormals.warnings()
        if self.unchecked is not None:
            yield f"the output was not checked: {self.unchecked}"


def _on_cpu(tensor: Tensor) -> Tensor:
    copied = tensor.detach().to("cpu", copy=True)
    return copied.float() if copied.is_floating_point() else copied
