"""The columns of a training to a target: when it was reached, by four clocks, from the log of its process."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime

from accelbench.judging.costs import joules_within
from accelbench.presentation import significant
from accelbench.schema.cell import Cell
from accelbench.schema.measurement import Measurement, TargetTraining
from accelbench.schema.record import Record, Row
from accelbench.schema.vocab import Definition, Span

BUILD_S = 1800.0  # of MLPerf, whose clock begins with the data, or so long after everything was built
MAX_INTERVAL = 0.05  # between two evaluations, as a share of the time to the target
COLUMNS = [
    *("target_reached", "target_s", "target_low_s", "target_mlperf_s", "target_train_s", "target_airbench_s"),
    *("target_compile_s", "target_epochs", "target_samples", "target_j", "target_cost", "target_tested"),
    "target_budget_s",
]


def of_training(cell: Cell, seen: TargetTraining) -> Row:
    """The columns that follow from the log alone; what became of a training that did not arrive is its budget."""
    row: Row = {"target_reached": seen.hit is not None, "target_tested": seen.tested}
    row["target_compile_s"] = seen.compile_s
    if seen.hit is None:
        return row | {"target_budget_s": seen.evaluations[-1].ended_s}
    hit = seen.evaluations[seen.hit]
    train_s = sum(each.seconds for each in seen.log if each.span == Span.train and each.ended_s <= hit.ended_s)
    return row | {
        "target_s": hit.ended_s,
        "target_low_s": low_s(seen) if cell.target.definition == Definition.passage else None,
        "target_mlperf_s": hit.ended_s - mlperf_began_s(seen),
        "target_train_s": train_s,
        "target_airbench_s": max(0.0, train_s - seen.compile_s) + hit.ended_s - hit.began_s,
        "target_epochs": hit.epochs,
        "target_samples": hit.num_samples,
    }


def low_s(seen: TargetTraining) -> float:
    """The end of the evaluation before the hit, or the begin of training: the target was reached later than that."""
    assert seen.hit is not None
    return seen.evaluations[seen.hit - 1].ended_s if seen.hit else _began_s(seen, Span.train)


def mlperf_began_s(seen: TargetTraining) -> float:
    """When MLPerf's clock begins: with the data, or half an hour after the network was built."""
    built_s = max((each.ended_s for each in seen.log if each.span == Span.build), default=0.0)
    return min(_began_s(seen, Span.data), built_s + BUILD_S)


def joules(record: Record, measured: Measurement) -> float | None:
    """Joules of the device from the begin of the process to the hit, above its idle power; None if unknown."""
    seen, system = measured.target, record.system
    if seen is None or seen.hit is None or system is None or (begin_s := system.started_boot_s) is None:
        return None
    until_s = begin_s + seen.evaluations[seen.hit].ended_s
    idle_w: Mapping[str, float] = record.environment.get("idle_w", {})
    return joules_within(record.cell.device, measured.num_devices, system, idle_w, [(begin_s, until_s)])


def doubts(cell: Cell, seen: TargetTraining) -> Iterator[str]:
    """That it was evaluated too seldom to tell when it was reached."""
    if seen.hit is None or cell.target.definition != Definition.passage:
        return
    hit_s = seen.evaluations[seen.hit].ended_s
    share = (hit_s - low_s(seen)) / (hit_s - mlperf_began_s(seen))
    if share > MAX_INTERVAL:
        seldom = f"evaluated every {100 * share:.0f} % of the time to the target"
        yield f"{seldom}, which is known no better: use a smaller target.every"


def notes(cell: Cell, seen: TargetTraining) -> Iterator[str]:
    """What became of it, beside the numbers."""
    target, found = cell.target, seen.evaluations
    known = [each.value for each in found if each.value is not None]
    if found[-1].value is None:
        yield f"its loss or metric was not finite after {found[-1].epochs:.3g} epochs, and it ended there"
    elif seen.hit is None:
        best = significant(min(known) if target.is_lower else max(known))
        of = f"the best of {len(known)} evaluations was {best}" if len(known) > 1 else f"the evaluation was {best}"
        yield f"{target.text} was not reached in {found[-1].epochs:.3g} epochs: {of}"
    elif seen.hit == 0 and target.definition == Definition.passage:
        yield "reached at the first evaluation: a smaller target.every tells when"
    if seen.stayed is False:
        yield f"it did not stay: the next evaluation was {significant(found[-1].value)}"


def mllog_line(key: str, time_ms: float, value: object, metadata: Mapping[str, object]) -> str:
    """An event as MLPerf's logging library writes it."""
    kind = {"start": "INTERVAL_START", "stop": "INTERVAL_END"}.get(key.rpartition("_")[2], "POINT_IN_TIME")
    event = {"namespace": "", "time_ms": round(time_ms), "event_type": kind, "key": key}
    return f":::MLLOG {json.dumps({**event, 'value': value, 'metadata': metadata})}\n"


def mllog(record: Record) -> str:
    """The events as lines of MLPerf's logging library; empty for a record of another protocol."""
    seen, lines = record.measurement.target if record.measurement else None, list[str]()
    if seen is None:
        return ""
    origin_ms = 1000 * datetime.fromisoformat(record.started_at).timestamp()

    def say(key: str, at_s: float, value: object = None, **metadata: object) -> None:
        lines.append(mllog_line(key, origin_ms + 1000 * at_s, value, metadata))

    begin_s, trained_s, epoch = mlperf_began_s(seen), _began_s(seen, Span.train), 0.0
    say("seed", 0.0, record.cell.seed)
    say("init_start", 0.0)
    say("init_stop", begin_s)
    say("run_start", begin_s)
    for each in seen.evaluations[: None if seen.hit is None else seen.hit + 1]:
        say("epoch_start", trained_s, epoch_num=epoch)
        epoch, trained_s = each.epochs, each.ended_s
        say("epoch_stop", each.began_s, epoch_num=epoch)
        say("eval_accuracy", trained_s, each.value, epoch_num=epoch)
    say("run_stop", trained_s, status="aborted" if seen.hit is None else "success")
    return "".join(lines)


def _began_s(seen: TargetTraining, span: Span) -> float:
    return min((each.began_s for each in seen.log if each.span == span), default=0.0)
