"""The columns of a training to a target, computed from the log of its process."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime

from accelbench.judging.costs import joules_within
from accelbench.presentation import counted, significant
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement, TargetTraining
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


def of_training(cell: Cell, training: TargetTraining) -> Row:
    """The columns that follow from the log. If a training missed the target, it has a budget instead of times."""
    row: Row = {"target_reached": training.hit is not None, "target_tested": training.tested}
    row["target_compile_s"] = training.compile_s
    if training.hit is None:
        return row | {"target_budget_s": training.evaluations[-1].ended_s}
    hit = training.evaluations[training.hit]
    before = [part for part in training.log if part.ended_s <= hit.ended_s]
    return row | {
        "target_s": hit.ended_s,
        "target_low_s": low_s(training) if cell.target.definition == Definition.passage else None,
        "target_train_s": sum(part.seconds for part in before if part.span == Span.train),
        "target_epochs": hit.epochs,
        "target_samples": hit.num_samples,
    }


def low_s(training: TargetTraining) -> float:
    """The earliest time at which the training can have reached the target.

    It is the end of the evaluation before the one that reached the target, or the start of training.
    """
    return training.evaluations[training.hit - 1].ended_s if training.hit else _began_s(training, Span.train)


def joules(record: Record, measured: Measurement) -> float | None:
    """Joules of the device above its idle power, from the start of the process until the target; None if unknown."""
    training, system = measured.target, record.system
    if training is None or training.hit is None or system is None or (begin_s := system.started_boot_s) is None:
        return None
    until_s = begin_s + training.evaluations[training.hit].ended_s
    idle_w: Mapping[str, float] = record.environment.get("idle_w", {})
    return joules_within(record.cell.device, measured.num_devices, system, idle_w, [(begin_s, until_s)])


def doubts(cell: Cell, training: TargetTraining) -> Iterator[str]:
    """A doubt if the evaluations were too rare for a precise time to the target."""
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
        yield "the first evaluation reached the target: a smaller target.every shows when exactly"
    if training.stayed is False:
        yield f"the next evaluation missed the target again, with {significant(last.value)}"


def mllog_line(key: str, time_ms: float, value: object, metadata: Mapping[str, object]) -> str:
    """An event, as MLPerf's logging library writes it (https://github.com/mlcommons/logging)."""
    kind = {"start": "INTERVAL_START", "stop": "INTERVAL_END"}.get(key.rpartition("_")[2], "POINT_IN_TIME")
    event = {"namespace": "", "time_ms": round(time_ms), "event_type": kind, "key": key}
    return f":::MLLOG {json.dumps({**event, 'value': value, 'metadata': metadata})}\n"


def mllog(record: Record) -> str:
    """The events of a training, as lines for MLPerf's logging library. Empty if the record has another protocol."""
    training = record.measurement.target if record.measurement else None
    if training is None:
        return ""
    lines: list[str] = []
    origin_ms = 1000 * datetime.fromisoformat(record.started_at).timestamp()

    def log(key: str, at_s: float, value: object = None, **metadata: object) -> None:
        lines.append(mllog_line(key, origin_ms + 1000 * at_s, value, metadata))

    begin_s = _began_s(training, Span.data)
    trained_s = _began_s(training, Span.train)
    epoch = 0.0
    log("seed", 0.0, record.cell.seed)
    log("init_start", 0.0)
    log("init_stop", begin_s)
    log("run_start", begin_s)
    for evaluation in training.evaluations[: None if training.hit is None else training.hit + 1]:
        log("epoch_start", trained_s, epoch_num=epoch)
        epoch, trained_s = evaluation.epochs, evaluation.ended_s
        log("epoch_stop", evaluation.began_s, epoch_num=epoch)
        log("eval_accuracy", trained_s, evaluation.value, epoch_num=epoch)
    log("run_stop", trained_s, status="aborted" if training.hit is None else "success")
    return "".join(lines)


def _began_s(training: TargetTraining, span: Span) -> float:
    return min((part.began_s for part in training.log if part.span == span), default=0.0)
