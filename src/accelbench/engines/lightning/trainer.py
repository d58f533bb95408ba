"""Creates Lightning's Trainer for each kind of device and each precision, and measures a cell inside its loop.

A step lasts from the end of one batch to the end of the next batch. So it includes all work of the loop for a batch.
"""

import importlib
import logging
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import Any

from lightning_fabric.accelerators import XLAAccelerator
from pytorch_lightning.plugins.precision.xla import XLAPrecision
from pytorch_lightning.profilers import Profiler
from torch import nn

from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.precision import (
    STORED_DTYPES,
    cast_module,
    cast_tensor,
    new_tensors_in,
    step_context,
    stored_in,
)
from accelbench.engines.pytorch.structure import mapped
from accelbench.errors import UserError
from accelbench.measuring.clock import Ask, Marks, Ran
from accelbench.schema.cell import Phase, Precision

HALF = {Precision.fp16: "16-true", Precision.bf16: "bf16-true"}
MIXED = {Precision.fp16_mixed: "16-mixed", Precision.bf16_mixed: "bf16-mixed"}
NEVER = 2**62  # a number of batches that no loop reaches
ENDED = "Lightning's loop ended too early: it got no batch (lower batch_size), or the module set trainer.should_stop"
NOT_VALIDATED = (
    "Lightning ran no validation, which protocol=target needs: define validation_step and val_dataloader"
)
EVALUATE = Ask()  # a clock yields it to run a validation instead of steps
# The last part of the name of an action that Lightning profiles -> the phase of a step.
PHASES = {
    "train_dataloader_next": Phase.data_wait,
    "predict_next": Phase.data_wait,
    "batch_to_device": Phase.copy_in,
    "training_step": Phase.forward,
    "predict_step": Phase.forward,
    "backward": Phase.backward,
    "optimizer_step": Phase.optimizer,
}


def hush_lightning() -> None:
    """Suppresses two warnings of Lightning, on predictions that are None and on training without validation.

    Here, such predictions and such training are intended. All other warnings of Lightning are shown. They remain
    warnings even if the user's code turned warnings into errors.
    """
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
        warnings.filterwarnings("default", module=name)
    for note in ("predict returned None", "You defined a `validation_step`"):
        warnings.filterwarnings("ignore", message=note)


def trainer_for(package: str, precision: Precision, backend: Backend, **settings: Any) -> Any:
    """Creates a Trainer for the device and the precision.

    `package` is `pytorch_lightning` or `lightning.pytorch`. The Trainer runs a validation only when `LoopHooks` sets
    the Trainer's attribute `val_check_batch`.
    """
    lightning = importlib.import_module(package)
    kind = backend.torch_type
    # On other devices, Lightning would import torch_xla to look for a TPU. That takes 1.5 s and replaces parts of
    # torch.nn.
    XLAAccelerator.is_available = staticmethod(lambda: kind == "xla")
    settings["accelerator"] = kind
    hush_lightning()
    if kind == "xla":
        settings |= _on_xla_device(lightning, backend)
    return lightning.Trainer(
        num_sanity_val_steps=0,
        check_val_every_n_epoch=None,
        val_check_interval=NEVER,
        plugins=[plugin_for(precision, kind, package)],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **settings,
    )


def _on_xla_device(lightning: Any, backend: Backend) -> dict[str, Any]:
    """Returns settings that make the Trainer use the backend's XLA device. Lightning knows only TPUs."""
    device = backend.device()
    methods = {
        "parse_devices": staticmethod(int),
        "get_parallel_devices": staticmethod(lambda num: [device]),
        "setup_device": lambda accelerator, device: None,  # the backend has set it up
    }
    accelerator = type("BackendsDevice", (lightning.accelerators.XLAAccelerator,), methods)()
    return {"accelerator": accelerator, "strategy": lightning.strategies.SingleDeviceXLAStrategy(device)}


def plugin_for(precision: Precision, torch_type: str, package: str) -> Any:
    """Returns the plugin of Lightning's `package` that makes a Trainer compute in `precision` on `torch_type`."""
    if torch_type == "xla":
        return _OnXla(precision)
    # A plugin, because the Trainer's argument `precision` is replaced silently: `16-mixed` on the CPU becomes
    # `bf16-mixed`.
    plugins = importlib.import_module(f"{package}.plugins.precision")
    if precision in MIXED:
        return plugins.MixedPrecision(MIXED[precision], torch_type)
    if precision == Precision.fp64:
        return plugins.DoublePrecision()
    plugin = plugins.HalfPrecision(HALF[precision]) if precision in HALF else plugins.Precision()
    # HalfPrecision's method drops imaginary parts.
    plugin.convert_module = partial(stored_in, precision=precision)
    return plugin


class _OnXla(XLAPrecision):  # type: ignore[misc]
    """The precision plugin for XLA. Weights and inputs have the same dtype. Mixed precisions use autocast.

    Lightning's own plugin is not used. It ignores `16-true`, rejects fp64, and sets an environment variable for
    `bf16-true`.
    """

    def __init__(self, precision: Precision) -> None:
        super().__init__("32-true")
        self._desired_dtype = STORED_DTYPES[precision]
        self.autocast = step_context(precision, "xla")

    def forward_context(self) -> AbstractContextManager[Any]:
        return self.tensor_init_context() if self.autocast is nullcontext else self.autocast()

    def convert_module(self, module: nn.Module) -> nn.Module:
        return cast_module(module, self._desired_dtype)

    def convert_input(self, data: Any) -> Any:
        return mapped(data, lambda tensor: cast_tensor(tensor, self._desired_dtype))

    def tensor_init_context(self) -> AbstractContextManager[Any]:
        return new_tensors_in(self._desired_dtype)

    module_init_context = tensor_init_context


class Endless:
    """The batches of a loader, which starts again when it has no more batches."""

    def __init__(self, loader: Iterable[Any]) -> None:
        self.loader = loader

    def __len__(self) -> int:
        return NEVER

    def __iter__(self) -> Iterator[Any]:
        has_batch = True
        while has_batch:
            has_batch = False
            for batch in self.loader:
                has_batch = True
                yield batch


class Stopped(BaseException):
    """Ends Lightning's loop after the measurement. Lightning then runs its teardown, but not the epoch-end hooks."""


class PhaseProfiler(Profiler):  # type: ignore[misc]
    """Marks the phases of a step. Lightning calls `start` and `stop` around its actions, which may be nested."""

    marks: Marks | None = None  # None while no phases are timed

    def begin(self, marks: Marks) -> None:
        self.marks = marks
        self.running = [Phase.framework]

    def start(self, action_name: str) -> None:
        if self.marks is not None and (phase := PHASES.get(action_name.rpartition(".")[2])):
            self.marks.mark(self.running[-1])
            self.running.append(phase)

    def stop(self, action_name: str) -> None:
        if self.marks is not None and action_name.rpartition(".")[2] in PHASES:
            self.marks.mark(self.running.pop())


class LoopHooks:
    """Runs and times steps. A step is one batch of Lightning's loop.

    `cell_run.conduct()` returns the clock, a generator. The clock yields how many steps to run, and gets their times.
    The first rank (process) tells the other ranks how many batches to run.
    """

    def __init__(self, cell_run: Any) -> None:
        self.cell_run = cell_run
        self.clock = cell_run.conduct()
        self.profiler = PhaseProfiler()
        self.num_steps = 0  # steps that have ended
        self._num_before = -1  # steps that ended before this epoch
        self.outputs: Any = None  # outputs of the last step
        self.ask = Ask()
        self.is_over = False
        self._within = ExitStack()

    def drive(self, loop: Callable[[], object]) -> None:
        """Runs Lightning's loop until everything was measured."""
        try:
            loop()
        except BaseException as error:
            # After the end of the clock, the measurement is complete. Later errors, as in a user's hook, are ignored.
            if not self.is_over:
                self._leave()
                try:
                    self.clock.throw(error)  # the clock may handle the error: some steps are optional
                except StopIteration:
                    self.is_over = True
        if not self.is_over:
            raise UserError(NOT_VALIDATED if self.ask is EVALUATE else ENDED)

    # Hooks that Lightning calls.

    def on_train_start(self, trainer: Any, module: Any) -> None:
        self.trainer = trainer
        self._advance(None)

    def on_train_epoch_start(self, *_: Any) -> None:
        if self.num_steps == self._num_before:  # Lightning would run empty epochs without an end
            raise UserError(ENDED)
        self._num_before = self.num_steps

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
        if self.ask is EVALUATE:
            raise UserError(NOT_VALIDATED)
        self.cell_run.begin_batch(batch, batch_idx)
        if self.ask.within is not None:
            self._within.enter_context(self.ask.within)

    on_predict_start, on_predict_batch_start = on_train_start, on_train_batch_start

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.num_steps += 1
        self._left -= 1
        if self.cell_run.ends_now() or not self._left:
            self._end(outputs)

    def on_predict_batch_end(
        self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.cell_run.backend.end_step()
        self.on_train_batch_end(trainer, module, outputs, batch, batch_idx)

    def on_validation_end(self, *_: Any) -> None:
        self.trainer.val_check_batch = NEVER
        self._end(None)

    # Helpers of the hooks.

    def _advance(self, ran: Ran | None) -> None:
        """Gives the clock the measured times `ran`, and prepares what the clock asks for next.

        Raises Stopped at the end of the measurement. After an evaluation, lets the Trainer end its loop itself, because
        it first sets the layers to the modes of training again.
        """
        try:
            ask = self.clock.send(ran)
        except StopIteration:
            self.is_over = True
            if self.ask is not EVALUATE:
                raise Stopped from None
            self.trainer.should_stop = True
            return
        self.ask = ask
        if ask is EVALUATE:
            self.trainer.val_check_batch = 1  # the Trainer validates after every `val_check_batch` batches
        else:
            self._asked = self._left = self.cell_run.ranks.begin(ask.num_steps)
            if not self._left:  # the first rank has ended the measurement
                self.is_over = True
                raise Stopped
        if ask.stamps is not None:
            self.profiler.begin(Marks(ask.stamps, time.perf_counter))
        self._start_s = time.perf_counter()

    def _end(self, outputs: Any) -> None:
        """Sends the times of the finished steps to the clock, and begins the next steps."""
        launched_s = time.perf_counter()
        marks, cell_run = self.profiler.marks, self.cell_run
        if marks is not None:
            marks.launched()
            ran = marks.end()
            cell_run.ranks.end()
        else:
            cell_run.wait_for_ranks()
            seconds = time.perf_counter() - self._start_s
            num_samples = cell_run.samples_between(self.num_steps - self._asked, self.num_steps)
            ran = Ran(seconds, num_samples, launched_s - self._start_s)
        self.outputs = outputs
        self._leave()
        self._advance(ran)

    def _leave(self) -> None:
        """Leaves the contexts of the step."""
        self._within.close()
        self.profiler.marks = None
