"""Computes the columns of a training to a target from the log of its process."""

from collections.abc import Iterator

from accelbench.judging.costs import joules_within
from accelbench.presentation import counted, significant
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import TargetTraining
from accelbench.schema.record import Record, Row
from accelbench.schema.vocab import Definition, Span

MAX_INTERVAL = 0.05  # largest ratio of the time between two evaluations to the time to the target
COLUMNS = [
    # `target_mlperf_s` and `target_airbench_s` are always empty: earlier releases had other clocks there.
    "target_reached",
    "target_s",
    "target_low_s",
    "target_mlperf_s",
    "target_train_s",
    "target_airbench_s",
    "target_compile_s",
    "target_epochs",
    "target_samples",
    "target_j",
    "target_cost",
    "target_tested",
    "target_budget_s",
]


def of_training(record: Record, training: TargetTraining) -> Row:
    """Returns the columns. If the target was missed, they contain the time spent, not the time to the target."""
    row: Row = {"target_reached": training.hit is not None, "target_tested": training.tested}
    row["target_compile_s"] = training.compile_s
    if training.hit is None:
        return row | {"target_budget_s": training.evaluations[-1].ended_s}
    hit = training.evaluations[training.hit]
    before = [part for part in training.log if part.ended_s <= hit.ended_s]
    began_boot_s = record.system.started_boot_s if record.system else None  # the start of the process
    joules = None
    if began_boot_s is not None:
        joules = joules_within(record, [(began_boot_s, began_boot_s + hit.ended_s)])
    return row | {
        "target_s": hit.ended_s,
        "target_low_s": low_s(training) if record.cell.target.definition == Definition.passage else None,
        "target_train_s": sum(part.seconds for part in before if part.span == Span.train),
        "target_epochs": hit.epochs,
        "target_samples": hit.num_samples,
        "target_j": joules,
    }


def low_s(training: TargetTraining) -> float:
    """Returns the earliest time at which the training can have reached the target.

    This is the end of the last evaluation before the target was reached. If there is none, it is the start of training.
    """
    return training.evaluations[training.hit - 1].ended_s if training.hit else _began_s(training, Span.train)


def doubts(cell: Cell, training: TargetTraining) -> Iterator[str]:
    """Yields a doubt if evaluations were too rare to measure the time to the target precisely."""
    if training.hit is None or cell.target.definition != Definition.passage:
        return
    hit_s = training.evaluations[training.hit].ended_s
    share = (hit_s - low_s(training)) / hit_s
    if share > MAX_INTERVAL:
        yield f"the time to the target may be up to {100 * share:.0f} % shorter: use a smaller target.every"


def notes(cell: Cell, training: TargetTraining) -> Iterator[str]:
    """Notes on how the training ended."""
    target = cell.target
    last = training.evaluations[-1]
    values = [evaluation.value for evaluation in training.evaluations if evaluation.value is not None]
    if last.value is None:
        yield f"the loss or the metric was not finite after {last.epochs:.3g} epochs, so the training ended there"
    elif training.hit is None:
        best = significant(min(values) if target.is_lower else max(values))
        num = counted(len(values), "evaluation")
        yield f"{target.text} was not reached in {last.epochs:.3g} epochs: the best of {num} was {best}"
    elif training.hit == 0 and target.definition == Definition.passage:
        yield "the first evaluation reached the target: with a smaller target.every, the time is more precise"
    if training.stayed is False:
        yield f"the target was reached, but the next evaluation missed it, with {significant(last.value)}"


def _began_s(training: TargetTraining, span: Span) -> float:
    return min((part.began_s for part in training.log if part.span == span), default=0.0)
