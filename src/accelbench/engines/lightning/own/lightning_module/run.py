"""A LightningModule of the user, measured as Lightning's Trainer runs it.

The Trainer's own loop runs, with the module's own training_step, optimisers and hooks, in a coroutine. Its
loader waits for the clock before each batch (`loader`), so that a step is one batch of the loop with everything that
the loop does, such as the end of an epoch.
"""

import copy
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import torch

from accelbench.engines.cell_run import Observed
from accelbench.engines.lightning import zoo
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.denormals import Denormals
from accelbench.engines.lightning.outputs import (
    all_finite,
)
from accelbench.engines.lightning.own.lightning_module.coroutine import LoopStep, TrainerCoroutine
from accelbench.engines.lightning.own.lightning_module.hooks import Skipped, StepProbe, counting, marking, wrapped
from accelbench.engines.lightning.own.lightning_module.loader import SwitchingLoader, unmarked
from accelbench.engines.lightning.own.lightning_module.module_outputs import ModuleOutputs
from accelbench.engines.lightning.own.lightning_module.user_module import UserModule
from accelbench.engines.lightning.precision import Observer
from accelbench.engines.lightning.profiler import busiest
from accelbench.engines.lightning.structure import num_rows, tensors_in
from accelbench.engines.lightning.training import (
    TrainedNetwork,
    noting_gradients,
    trainable,
    training_in_inference,
)
from accelbench.engines.lightning.work import Counter, not_counted
from accelbench.errors import UnsupportedError
from accelbench.measuring.breakdown import has_time, measure_breakdown
from accelbench.measuring.output_check import MAX_WHY
from accelbench.measuring.promises import check_timed
from accelbench.measuring.runner import Watch
from accelbench.measuring.training import MAX_CYCLE
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Work
from accelbench.schema.text import beginning, message_of, one_line
from accelbench.schema.vocab import XLA, Phase

MAX_AWAITED_S = 2.0  # of steps that are run until a weight changes


class ModuleRun(ModuleOutputs):
    """One cell's run. The arguments are those of `CellRun`."""

    backend: Backend
    observer: Observer

    def __init__(self, cell: Cell, data_folder: Path, backend: Backend) -> None:
        if cell.devices > 1 or cell.device in XLA:
            raise UnsupportedError("model=lightning: runs on one device, the CPU or a GPU")
        super().__init__(cell, data_folder, backend)
        if self.fits:
            raise UnsupportedError("model=lightning: protocol=fit needs a test set: use protocol=window or steps")
        self.user_module = UserModule(cell, backend)
        self.trainer = self.user_module.trainer
        self.coroutine = TrainerCoroutine(self._loop)
        self.loader: SwitchingLoader
        self.looked = StepProbe()
        self.denormals = Denormals()
        self.work: Work | None
        self.finite = True
        self.unchecked: str | None = None  # why outputs were not checked
        self.called: dict[int, Any] = {}  # id of a compared batch -> what predict_step got for it, on the CPU
        self.kept_alive: list[Any] = []  # so that no other batch gets the id of one of them
        self.timed_size = 0  # rows of the output that was looked at in the steady state
        self.asked_at_start: dict[str, Any]
        self.counted: tuple[int, int] | None = None  # batches and the optimiser's steps before the steady state

    @property
    def fetches_inside(self) -> bool:
        """The loop fetches its batches."""
        return True

    def _loop(self) -> None:
        """Runs the Trainer, whose loader waits for the clock."""
        run = self.trainer.fit if self.trains else self.trainer.predict
        more = {} if self.trains else {"return_predictions": False}
        run(self.user_module.module, datamodule=self.user_module.data, **more)

    def _switching(self, loader: Any) -> SwitchingLoader:
        self.loader = SwitchingLoader(
            loader, self.coroutine.wait_for_step, self.user_module.batch_sizes, endless=not self.trains
        )
        return self.loader

    def run_steps(self) -> None:
        """Starts the loop, measures it batch by batch, and stops it."""
        self.user_module.wrap_loader(self._switching)
        try:
            self.coroutine.step()  # up to the first batch
            self._note_built()
            step = self.step = LoopStep(self.coroutine, self.loader)
            skipped = Skipped(lambda: step.num_steps)
            with skipped.noted(self.user_module.package):
                self.measure_window(step)
                self.defects += skipped.defects(self.user_module.flag, self.timing.num_warmup_steps, step.num_steps)
                self._check_counts()
                self.note_resources()
                if self.trains:
                    with self.seen.checking():
                        self.seen.training.end = self.trained.states()
                self._break_down(step)
                self._look()
                if self.backend.torch_type == "cpu" and not self.backend.flushes_denormals:
                    self.denormals.look_at_weights(self.user_module.module, next(iter(self.trainer.optimizers), None))
                self.user_module.note_schedulers()
                self.work = self.work_of_step(self._count)
                if not self.trains:
                    self._keep_outputs()
                if not self.is_one_step and has_time(median(self.timing.latency_s), self.cell.timeout_s):
                    self._look_further(median(self.timing.latency_s))
                self.defects += self.user_module.changed_settings(self.asked_at_start)
        finally:
            self.coroutine.stop()

    def _note_built(self) -> None:
        """Once the module and its optimisers are on the device."""
        self.build_s = self.user_module.build_s
        self.user_module.check_set_up()
        self.num_params = zoo.num_params(self.user_module.module)
        self.observer = Observer(self.user_module.module)
        self.asked_at_start = self.user_module.settings()
        self.trained = TrainedNetwork(self.user_module.module, self.seen.training)
        if self.trains:
            self.trained.begin()
        self.backend.hold(torch.float32)  # between the steps: Lightning sets another around each

    def watch(self, step: LoopStep) -> Watch:
        """This run."""
        return self

    @check_timed
    def start(self) -> None:
        """See `Watch`."""
        if self.trains:
            self.seen.training.start = self.trained.states()
            self.counted = self.step.num_steps, self.trainer.global_step

    @check_timed
    def look(self, batch: None) -> None:
        """See `Watch`: looks at one more step, which is like those that are timed."""
        look = self._looked_step()
        self._check_whole(look)
        self.defects += self.user_module.changed_settings(self.asked_at_start)
        if self.trains:
            self.seen.training.looked = self.trained.states()
        self.timed = look.batch, [] if self.trains else self._described(look)

    def _check_counts(self) -> None:
        """Notes a defect if the optimiser made fewer steps than batches ask for, as Lightning counts them."""
        if not self.trains or self.counted is None or not self.user_module.module.automatic_optimization:
            return
        num_batches = self.step.num_steps - self.counted[0]
        made, due = self.trainer.global_step - self.counted[1], num_batches // self.user_module.asked_accumulated
        if made < due - 2:
            self.defects.append(f"its optimisers made {made} steps in {num_batches} batches, and {due} were due")

    def _check_whole(self, look: StepProbe) -> None:
        """Notes a defect if the module's hooks took samples of the loader's batch away."""
        if self.cell.model.samples is None and (rows := look.rows_left) is not None:
            self.defects.append(f"the module's hooks left {rows[0]} of the {rows[1]} rows of a batch")

    @check_timed
    def _look_further(self, latency_s: float) -> None:
        """Runs further steps on batches that were never fed: what they train and keep."""
        if self.trains:
            self.trained.note_settings(self.trainer.optimizers)
            self._await_change(latency_s)
        if self.timed is not None and next(tensors_in(self.timed[0]), None) is not None:
            fed = self.timed[0]
            self.look_for_kept_results(lambda: copy.deepcopy(fed), lambda: self._unseen(fed), self.unseen_s)
        if self.trains:
            self.seen.training.later = self.trained.states()

    def _await_change(self, latency_s: float) -> None:
        """Runs further steps until a weight changes, if none did: gradients may be accumulated by hand."""
        training = self.seen.training
        is_manual = not self.user_module.module.automatic_optimization
        training.cycle = None if is_manual else self.user_module.num_accumulated
        if training.has_trained and not training.stopped:
            return
        for _ in range(min(MAX_CYCLE, int(MAX_AWAITED_S / latency_s))):
            self.step.compute(None)
            training.later = self.trained.states()
            if training.later != training.end:
                break
            training.num_still += 1

    def _break_down(self, step: LoopStep) -> None:
        """Times the phases of further steps, and profiles one."""
        cell = self.cell
        if not cell.breakdown_s or not has_time(median(self.timing.latency_s), cell.timeout_s):
            return
        if self.user_module.num_accumulated == 1:  # else every second batch would meet the same ones of a cycle

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
        with wrapped(self.trainer, self.looked.wrap(self.user_module.module, observer)):
            self.step.compute(None)
        self.backend.wait()
        results = [*tensors_in(self.looked.result)]
        if self.trains:
            results += self.user_module.module.parameters()
        self.finite = all_finite(results)

    def _count(self) -> Work:
        """What one step has to do, from further real ones: one cycle of accumulated gradients."""
        counter = Counter()
        num_steps = self.user_module.num_accumulated
        noting = (
            noting_gradients(trainable(self.user_module.module), self.seen.training) if self.trains else nullcontext()
        )
        try:
            with wrapped(self.trainer, counting(counter)), noting:
                for _ in range(num_steps):
                    self.step.compute(None)
        except Exception as error:  # a user's module may raise anything
            return not_counted(error)
        self.seen.products.flops, self.seen.products.uncounted = dict(counter.flops_in), counter.uncounted
        self.seen.training.num_later = num_steps
        return counter.work(num_steps)

    def _keep_outputs(self) -> None:
        try:
            if not num_rows(self.looked.batch):
                raise UnsupportedError("its batches hold no tensors that accelbench finds")
            self.seen.modes = training_in_inference(self.user_module.module)
            self.keep_outputs(self._size(self.looked), None)
        except Exception as error:  # a user's module may raise anything: it was measured all the same
            self.unchecked = beginning(one_line(message_of(error)), MAX_WHY)

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
        yield from self.user_module.notes()
        yield from self.backend.notes()
        if self.trains and self.looked.loss is None:
            yield "training_step returns no loss, so that only the weights were checked to be finite"
        if self.cell.breakdown_s and self.user_module.num_accumulated > 1:
            yield "steps have no phases: with accumulated gradients they differ from batch to batch"

    def warnings(self) -> Iterator[str]:
        """That outputs could not be checked, and slow numbers."""
        yield from self.denormals.warnings()
        if self.unchecked is not None:
            yield f"the output was not checked: {self.unchecked}"
