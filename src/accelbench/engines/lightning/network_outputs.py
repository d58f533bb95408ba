"""Outputs of a network in further steps: those that are compared, and steps on inputs that were never fed."""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from statistics import median
from typing import Any

import pytorch_lightning as pl
import torch
from torch import nn

from accelbench.engines.cell_run import CellRun
from accelbench.engines.lightning.backends import Backend
from accelbench.engines.lightning.module import InferStep
from accelbench.engines.lightning.options import Compiler
from accelbench.engines.lightning.outputs import LAZY, computes_when_read, described
from accelbench.engines.lightning.ranks import Ranks
from accelbench.engines.lightning.structure import (
    arguments,
    copied_into,
    is_same,
    keys_of_rows,
    mapped,
    mixed,
    num_rows,
    on_host,
    reordered,
    tensors_in,
)
from accelbench.engines.lightning.training import TrainedNetwork, noting_gradients, trainable
from accelbench.engines.lightning.work import watched
from accelbench.engines.lightning.workload import Workload
from accelbench.errors import UserError
from accelbench.measuring.breakdown import has_time
from accelbench.measuring.output_check import NUM_ROWS
from accelbench.measuring.outputs import Output
from accelbench.measuring.promises import check_timed
from accelbench.schema.vocab import XLA, Device, Pipeline, Precision

NUM_GIVEN_AGAIN = 3


class NetworkOutputs(CellRun):
    """The part of the Lightning engine's run that looks at further steps.

    Attributes:
        step: of the timed part, which further steps are like.
        last_result: of it.
        compared_on: the batch on the device that outputs are compared for.
    """

    backend: Backend
    ranks: Ranks
    workload: Workload
    compiler: Compiler | None
    trainer: pl.Trainer
    network: nn.Module
    trained: TrainedNetwork
    step: InferStep
    last_result: Any
    compared_on: Any = None

    @property
    def is_plain(self) -> bool:
        """Whether the network runs operator by operator in this process alone, so that each can be watched."""
        return self.compiler is None and self.ranks.num == 1 and self.cell.device not in XLA

    def check_computed(self, output: object) -> None:
        """Raises a UserError if the output is computed only when it is read."""
        if computes_when_read(output):
            raise UserError(f"model.target={self.cell.model.definition}: {LAZY}")

    @check_timed
    def look_further(self, step: InferStep) -> None:
        """Runs further steps on batches that were never fed: what they compute, train and keep."""
        latency_s = median(self.timing.latency_s or [block.seconds / block.num_steps for block in self.timing.blocks])
        if self.is_one_step or self.ranks.num > 1 or not has_time(latency_s, self.cell.timeout_s):
            return
        self.note_resources()
        first_s = self.unseen_s
        if self.trains:
            self.trained.note_settings(self.trainer.optimizers)
            if self.is_plain:
                unseen = self.workload.unseen(labelled=True)
                start = time.perf_counter()
                with noting_gradients(trainable(self.network), self.seen.training), watched(self.seen.products):
                    step.compute(step.copy_in(unseen))
                self.backend.wait()
                first_s = time.perf_counter() - start
                self.seen.training.num_later = 1
                # Once more if so: a hard output may be the same by chance.
                self.seen.training.keeps_outputs = all(self._gives_again(step) for _ in range(NUM_GIVEN_AGAIN))
        self._replay(first_s)
        if self.trains:
            self.seen.training.later = self.trained.states()

    def _gives_again(self, step: InferStep) -> bool:
        """Whether of three forward passes of training on different inputs two neighbours alone give the same."""
        batches = [self.workload.unseen(labelled=True) for _ in range(3)]
        outputs = []
        for batch in batches:
            with step.context():
                output, _ = step.task.train(self.network, step.copy_in(batch))
            outputs.append([tensor.detach().clone() for tensor in tensors_in(output)])
        same = [is_same(*pair) for pair in pairwise(outputs)]
        return any(same) and not all(same) and not any(is_same(*pair) for pair in pairwise(batches))

    def _replay(self, first_s: float | None) -> None:
        """Looks for kept results, unless no input is ever fed twice; a short batch takes less time."""
        if self.cell.data.pipeline == Pipeline.fresh or self.timed is None:
            return
        fed = on_host(self.timed[0])
        if num_rows(fed) in (0, num_rows(self.workload.example())):
            self.look_for_kept_results(
                lambda: mapped(fed, torch.Tensor.clone), lambda: self.workload.alike(fed), first_s
            )

    def compared_inputs(self) -> tuple[Any, Any]:
        """In host memory."""
        fed = self.workload.example() if self.timed is None else on_host(self.timed[0])
        unseen = self.workload.unseen()
        if next(tensors_in(fed)).shape != next(tensors_in(unseen)).shape:  # the epoch's last batch was looked at
            fed = self.workload.example()
            self.timed = self.timed and (self.timed[0], None)
        return fed, unseen

    @property
    def same_random(self) -> bool:  # type: ignore[override]
        """On the CPU in fp32, if nothing was compiled: in other formats torch draws other numbers."""
        return self.is_reference and self.is_plain

    def seed_output(self, number: int) -> None:
        """All of torch's generators."""
        torch.manual_seed(number)

    def reordered_inputs(self, batch: Any, order: Sequence[int]) -> Any:
        """In host memory."""
        return reordered(batch, order) if num_rows(batch) == len(order) else None

    def mixed_inputs(self, batch: Any, other: Any, rows: Sequence[int]) -> Any:
        """In host memory."""
        return mixed(batch, other, rows) if num_rows(batch) == self.workload.num_rows else None

    def inputs_of_rows(self, batch: Any, rows: Sequence[int]) -> list[int]:
        """Hashes of them."""
        return keys_of_rows(self.workload.task.infer(arguments, batch), rows, self.workload.num_rows)  # type: ignore[arg-type]

    def measured_output(self, batch: Any, rows: Sequence[int]) -> Output:
        """From a further step. Its inputs are copied over those of the last one, where they keep their addresses."""
        if self.cell.options.cuda_graphs:  # a graph overwrites its earlier result
            self.last_result = [tensor.clone() for tensor in tensors_in(self.last_result)]
        whole = mapped(batch, torch.Tensor.clone)
        if self.compared_on is None or self.cell.device in XLA or not copied_into(self.compared_on, whole):
            self.compared_on = self.step.copy_in(whole)
        is_watched = self.is_plain and not self.seen.products.total and self.unseen_s is not None  # that step is timed
        with watched(self.seen.products) if is_watched else nullcontext():
            result = self.step.compute(self.compared_on)
        if computes_when_read(result):
            self.defects.append(LAZY)
        return described(result, self.workload.num_rows, rows)

    @property
    def num_reference_rows(self) -> int:  # type: ignore[override]
        """Those of the workload."""
        return self.workload.num_reference_rows

    @property
    def has_same_reference(self) -> bool:  # type: ignore[override]
        """On the CPU, for whole batches: those of other sizes are rounded in another order."""
        on_cpu = self.cell.device == Device.cpu and self.is_plain and not self.cell.options.change_output
        return on_cpu and self.workload.num_reference_rows == NUM_ROWS

    def reference_outputs(
        self, batches: Sequence[Any], *, other: bool = False, precision: Precision | None = None
    ) -> list[Output]:
        """From the cell's network, built again."""
        return self.workload.reference(batches, self.rows, other=other, precision=precision)
