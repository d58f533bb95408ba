"""Outputs of a LightningModule in further steps of its loop, whose loader gives the batches."""

import copy
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from accelbench.engines.cell_run import CellRun
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.global_state import new_tensors_in
from accelbench.engines.lightning.outputs import LAZY, computes_when_read, described, seeded, size_of
from accelbench.engines.lightning.own.lightning_module.coroutine import LoopStep
from accelbench.engines.lightning.own.lightning_module.hooks import StepProbe, wrapped
from accelbench.engines.lightning.own.lightning_module.loader import SwitchingLoader
from accelbench.engines.lightning.own.lightning_module.user_module import UserModule
from accelbench.engines.lightning.structure import (
    copied_into,
    keys_of_rows,
    mapped,
    mixed,
    num_rows,
    reordered,
    varied_rows,
)
from accelbench.engines.lightning.workload import in_precision
from accelbench.measuring.outputs import Output
from accelbench.schema.vocab import Precision


class ModuleOutputs(CellRun):
    """The part of a LightningModule's run that compares outputs.

    Attributes:
        looked: a step that was looked at after the timed part.
        called: id of a compared batch -> what predict_step got for it, on the CPU.
        kept_alive: the compared batches, so that no other batch gets the id of one of them.
        timed_size: rows of the output that was looked at in the steady state.
        timed_given: what predict_step got for that, on the CPU.
    """

    backend: Backend
    user_module: UserModule
    trainer: Any
    loader: SwitchingLoader
    step: LoopStep
    looked: StepProbe
    called: dict[int, Any]
    kept_alive: list[Any]
    timed_size: int
    timed_given: Any = None

    def _looked_step(self) -> StepProbe:
        look, sizes, ahead = StepProbe(), self.loader.sizes, self.loader.ahead
        add = sizes.add

        def noted(batch: Any) -> None:
            look.loaded = batch if ahead is None else ahead
            add(batch)

        sizes.add = noted  # type: ignore[method-assign]
        with wrapped(self.trainer, look.wrap(self.user_module.module, None)):
            self.step.compute(None)
        sizes.add = add  # type: ignore[method-assign]
        self.backend.wait()
        if computes_when_read(look.result):
            self.defects.append(LAZY)
        return look

    def seconds_of(self, batches: Sequence[Any]) -> float:
        """How long steps of the loop take whose loader gives these batches."""
        start = time.perf_counter()
        for batch in batches:
            self.loader.given.append(batch)
            self.step.compute(None)
        self.backend.wait()
        return time.perf_counter() - start

    def _unseen(self, batch: Any) -> Any:
        """The samples of a batch, varied."""
        return _filled(batch, varied_rows(batch, num_rows(batch)))

    def compared_inputs(self) -> tuple[Any, Any]:
        """A batch of the loader, and its samples changed and in another order."""
        if self.timed is None or self._size(self.looked) != self.timed_size:
            self.timed = self.timed and (self.timed[0], None)
            fed = copy.deepcopy(self.looked.batch)
        else:
            fed = copy.deepcopy(self.timed[0])
            self.called[id(fed)] = self.timed_given
            self.kept_alive.append(fed)
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
        return _filled(batch, reordered(batch, order)) if num_rows(batch) == len(order) else None

    def mixed_inputs(self, batch: Any, other: Any, rows: Sequence[int]) -> Any:
        """All tensors with as many rows as the batch has."""
        if num_rows(batch) != self.timed_size or (found := mixed(batch, other, rows)) is None:
            return None
        return _filled(batch, found)

    def inputs_of_rows(self, batch: Any, rows: Sequence[int]) -> list[int]:
        """Hashes of them; of a tuple, those of its first element alone: labels follow, which no output depends on."""
        called = self.called.get(id(batch), batch)
        return keys_of_rows(called[0] if isinstance(called, tuple | list) else called, rows, num_rows(batch))

    def measured_output(self, batch: Any, rows: Sequence[int]) -> Output:
        """From a further step of the loop, whose loader gives this batch."""
        self.loader.given.append(copy.deepcopy(batch))
        look = self._looked_step()
        self.called[id(batch)] = mapped(look.given, _on_cpu)
        self.kept_alive.append(batch)
        return described(look.result, self._size(look), rows)

    def reference_outputs(
        self, batches: Sequence[Any], *, other: bool = False, precision: Precision | None = None
    ) -> list[Output]:
        """From a newly built module, without a Trainer, for what predict_step got."""
        dtype, context = in_precision(precision or Precision.fp32)
        predict = self.user_module.new_predict(other=other, dtype=dtype)
        called = (self.called[id(each)] for each in batches)
        inputs = (mapped(each, lambda tensor: _copied(tensor, dtype)) for each in called)
        with torch.no_grad(), context, new_tensors_in(dtype):
            outputs = list(seeded(inputs, predict))
        return [described(output, self.timed_size, self.rows) for output in outputs]

    def _size(self, look: StepProbe) -> int:
        """The rows of an output: as many as the batch has, or as the user counts samples."""
        rows = num_rows(look.batch)
        counted = self.user_module.batch_sizes.sizes[-1]
        return size_of(look.result, (rows, counted)) if self.cell.model.samples else rows

    def _described(self, look: StepProbe) -> Output:
        self.timed_size, self.timed_given = self._size(look), mapped(look.given, _on_cpu)
        return described(look.result, self.timed_size, self.rows_of(self.timed_size)) if self.timed_size else []


def _filled(batch: Any, contents: Any) -> Any:
    """A copy of the batch, of the user's own type, with other contents."""
    made = copy.deepcopy(batch)
    copied_into(made, contents)
    return made


def _on_cpu(tensor: Tensor) -> Tensor:
    return _copied(tensor.detach().to("cpu"), torch.float32)


def _copied(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype if tensor.is_floating_point() else tensor.dtype, copy=True)
