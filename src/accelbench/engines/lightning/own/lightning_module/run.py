"""A LightningModule of the user, measured as Lightning's Trainer runs it.

The Trainer's own loop runs, with the module's own training_step, optimisers and hooks, in a coroutine (`baton`). Its
loader waits for the clock before each batch (`loader`), so that a step is one batch of the loop with everything that
the loop does, such as the end of an epoch.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from accelbench.engines.cell_run import CellRun
from accelbench.engines.lightning import zoo
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.busiest import busiest
from accelbench.engines.lightning.denormals import Denormals
from accelbench.engines.lightning.outputs import all_finite, described, size_of
from accelbench.engines.lightning.own.lightning_module.baton import Baton
from accelbench.engines.lightning.own.lightning_module.loader import SwitchingLoader, unmarked
from accelbench.engines.lightning.own.lightning_module.looking import Looks
from accelbench.engines.lightning.own.lightning_module.sections import counting, marking, wrapped
from accelbench.engines.lightning.own.lightning_module.skipped import Skipped
from accelbench.engines.lightning.own.lightning_module.subject import Subject
from accelbench.engines.lightning.precision import Observer
from accelbench.engines.lightning.structure import mapped, tensors_in
from accelbench.engines.lightning.work import Counter, not_counted
from accelbench.engines.observed import Observed
from accelbench.errors import UnsupportedError
from accelbench.measuring.breakdown import has_time, measure_breakdown
from accelbench.measuring.output_check import MAX_WHY, Output
from accelbench.measuring.output_error import NUM_SAMPLES
from accelbench.schema.cell import Cell
from accelbench.schema.text import beginning, message_of, one_line
from accelbench.schema.vocab import XLA, Phase
from accelbench.schema.work import Work


class LoopStep:
    """One batch of Lightning's loop, as the clock sees it: everything happens inside `compute`."""

    def __init__(self, baton: Baton, sizes: list[int]) -> None:
        self.pass_baton = baton.step
        self.sizes = sizes
        self.num_steps = 0
        self.mark: Callable[[Phase], None] = unmarked

    def fetch(self) -> None:
        """Nothing: the loop fetches its batch."""

    def copy_in(self, batch: None) -> None:
        """Nothing: the loop copies its batch."""

    def compute(self, batch: None) -> None:
        """Runs the next batch."""
        self.pass_baton()
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
        self.called: dict[int, Any] = {}  # compared batch -> the batch that predict_step got for it, on the CPU

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
            step = self.step = LoopStep(self.baton, self.subject.batch_sizes.sizes)
            skipped = Skipped(lambda: step.num_steps)
            with skipped.noted(self.subject.package):
                self.measure_window(step)
            self.defects += skipped.defects(self.subject.flag, self.timing.num_warmup_steps, step.num_steps)
            self.note_resources()
            self._break_down(step)
            self._look()
            if self.backend.torch_type == "cpu" and not self.backend.flushes_denormals:
                self.denormals.look_at_weights(self.subject.module, next(iter(self.trainer.optimizers), None))
            self.subject.note_schedulers()
            self.work = self.work_of_step(self._count)
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
        self.backend.hold(torch.float32)  # between the steps: Lightning sets another around each

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
        try:
            with wrapped(self.trainer, counting(counter)):
                for _ in range(num_steps):
                    self.step.compute(None)
        except Exception as error:  # a user's module may raise anything
            return not_counted(error)
        return counter.work(num_steps)

    def _keep_outputs(self) -> None:
        self.num_rows = next((len(tensor) for tensor in tensors_in(self.looked.batch) if tensor.dim()), 0)
        try:
            if not self.num_rows:
                raise UnsupportedError("its batches hold no tensors that accelbench finds")
            self.size = self.num_rows
            if self.cell.model.samples:
                self.size = size_of(self.looked.result, (self.num_rows, self.subject.batch_sizes.sizes[-1]))
            self.keep_outputs(self.size, None)
        except Exception as error:  # a user's module may raise anything: it was measured all the same
            self.unchecked = beginning(one_line(message_of(error)), MAX_WHY)

    def compared_inputs(self) -> tuple[Any, Any]:
        """A batch of the loader, and its rows in another order."""
        fed, unseen = copy.deepcopy(self.looked.batch), copy.deepcopy(self.looked.batch)
        for tensor in tensors_in(unseen):
            if tensor.dim() and len(tensor) == self.num_rows:
                tensor.copy_(tensor.roll(1, 0))
        return fed, unseen

    def measured_outputs(self, batches: Sequence[Any]) -> list[Output]:
        """From further steps of the loop, whose loader gives these batches."""
        outputs = []
        for batch in batches:
            self.loader.given.append(copy.deepcopy(batch))
            look = Looks()
            with wrapped(self.trainer, look.wrap(self.subject.module, None)):
                self.step.compute(None)
            self.called[id(batch)] = mapped(look.given, _on_cpu)
            outputs.append(self._described(look.result))
        return outputs

    def reference_outputs(self, batches: Sequence[Any]) -> list[Output]:
        """From a newly built module, without a Trainer, for what predict_step got."""
        predict = self.subject.new_predict()
        with torch.no_grad():
            outputs = [predict(mapped(self.called[id(batch)], Tensor.clone)) for batch in batches]
        return [self._described(output) for output in outputs]

    def _described(self, output: Any) -> Output:
        return described(output, self.size, min(NUM_SAMPLES, self.size))

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
