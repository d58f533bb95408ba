"""A study's conclusions as claims: that a network is so many times as fast with one setting as with another."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

from accelbench.answers.cells import Word
from accelbench.compare.sureness import LIKELY_RATIO, Judgement
from accelbench.errors import UserError
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Device, Mode, Precision
from five_studies import published
from five_studies.published import Published
from five_studies.speedups import ALL, TIMES, UNEQUAL_BATCHES

if TYPE_CHECKING:
    from accelbench.bundle.replay import Claim

MODES = TIMES | {"latency": Mode.infer}
WORDS = {"000": "model=timm model.name={}", "003": "model={} data.pipeline=device"}  # what is not as usual


def claims(study: str) -> "list[Claim]":
    """The ratios of published times of one machine, or of two devices in one precision, the largest first.

    Raises UserError: the study has none that are far enough apart to be likely.
    """
    if not (found := _found(study)):
        known = ", ".join(each for each in published.studies() if _found(each))
        raise UserError(f"study:{study}: has no claims to replay. Choose from: {known}.")
    return sorted(found, key=lambda claim: -claim.judged.ratio)


def _found(study: str) -> "list[Claim]":
    alike: dict[tuple[str, str], list[Published]] = defaultdict(list)
    for each in published.load(study):
        if each.metric in MODES and each.model != ALL and each.device:
            alike[each.model, each.metric].append(each)
    return [claim for times in alike.values() for claim in _claims(times)]


def _claims(times: Sequence[Published]) -> "Iterator[Claim]":
    # Here, since a report needs none of it.
    from accelbench.bundle.replay import Claim

    for pair in combinations(times, 2):
        if not _differ_in_one(*pair):
            continue
        fast, slow = sorted(pair, key=_speed, reverse=True)
        if _speed(fast) / _speed(slow) <= LIKELY_RATIO:
            continue
        words = WORDS.get(fast.study, "model={}").format(fast.model) + f" mode={MODES[fast.metric]} tracking=none"
        engine = published.framework(fast.study)
        machines = dict.fromkeys(each.source.partition(": ")[2] for each in (fast, slow))
        measured = ", ".join(filter(None, [f"its {fast.metric}", " / ".join(machines)]))
        what = f"{fast.model} {MODES[fast.metric]}: {_text(fast)} over {_text(slow)} ({measured})"
        cell = _cell(words + (f" engine={engine}" if engine else ""))
        cells = replace(cell, **_settings(fast)), replace(cell, **_settings(slow))
        yield Claim(what, cells, Judgement(ratio=_speed(fast) / _speed(slow), word=Word.likely))


@cache
def _cell(words: str) -> Cell:
    from accelbench.settings.compose import one_cell

    return one_cell(words)[0]


def _differ_in_one(one: Published, other: Published) -> bool:
    """Whether they differ in the device, or on one machine in the precision or the batch."""
    precisions = [{Precision.tf32: Precision.fp32}.get(each.precision, each.precision) for each in (one, other)]
    differ = (precisions[0] != precisions[1], one.batch_size != other.batch_size)
    if one.device != other.device:  # a study's float32 on a GPU may be TF32
        return not differ[0] and (not differ[1] or one.study in UNEQUAL_BATCHES)
    return one.source.split(", ")[:2] == other.source.split(", ")[:2] and sum(differ) == 1


def _speed(time: Published) -> float:
    return (time.batch_size or 1 if time.metric == "latency" else 1) / time.value


def _settings(time: Published) -> dict[str, Any]:
    devices = published.find(time.study, time.model, "devices", time.device)
    settings = {"device": Device(str(time.device)), "devices": int(devices.value) if devices else 1}
    batch = {"batch_size": time.batch_size} if time.batch_size else {}
    return {**settings, "precision": time.precision, **batch}


def _text(time: Published) -> str:
    return f"{time.device} {time.precision}{f' b{time.batch_size}' if time.batch_size else ''}"
