"""Where a step's wall time goes: each phase timed on its own, beside steps that are left alone."""

import time
from collections.abc import Callable
from typing import Any, Protocol

from accelbench.measuring.clock import Now
from accelbench.measuring.step import ONE_RANK, RankGroup, Step
from accelbench.schema.measurement import Breakdown
from accelbench.schema.vocab import Phase

# Steps of each kind: at least so many, however slow, and at most.
MIN_STEPS = 3
MAX_STEPS = 200


class PhasedStep(Step, Protocol):
    """A step that calls `mark` at the end of each phase of its `compute`."""

    mark: Callable[[Phase], None]


class Stamps(Protocol):
    """How an engine takes the time between phases, with as little disturbance as its device allows."""

    fused: bool
    """Whether the device runs a recorded step as a whole, so that phases within it do not exist."""

    def wait(self) -> None:
        """Returns when everything launched on the device is done."""

    def stamp(self) -> Any:
        """This moment in the device's work: what was launched before it belongs before it."""

    def between(self, start: Any, end: Any) -> float:
        """Seconds from one stamp to another; both are past."""


def measure_breakdown(
    step: PhasedStep, stamps: Stamps, seconds: float, now: Now = time.perf_counter, team: RankGroup = ONE_RANK
) -> Breakdown:
    """Times the phases of steps, in turn with steps that are waited for at their end alone.

    What is left of a step's wall time between its phases is `framework`: the phases of a step add up to it.

    Args:
        step: the workload, warmed up.
        stamps: how to take the time on its device.
        seconds: how long, at least.
        now: a clock in seconds.
        team: the processes that take the steps; the times are this one's own.
    """
    plain: list[float] = []
    phased: list[dict[Phase, float]] = []
    elapsed = 0.0
    while len(plain) < MIN_STEPS or (elapsed < seconds and len(plain) < MAX_STEPS):
        team.begin(1)
        plain.append(_plain_step(step, stamps, now))
        team.end()
        team.begin(1)
        phased.append(_phased_step(step, stamps, now))
        team.end()
        elapsed += plain[-1] + sum(phased[-1].values())
    return Breakdown(
        phases_s={phase.value: [phases[phase] for phases in phased] for phase in phased[0]}, undisturbed_s=plain
    )


def _plain_step(step: PhasedStep, stamps: Stamps, now: Now) -> float:
    start = now()
    step.copy_out(step.compute(step.copy_in(step.fetch())))
    stamps.wait()
    return now() - start


def _phased_step(step: PhasedStep, stamps: Stamps, now: Now) -> dict[Phase, float]:
    """Seconds of each phase; they add up to the step's."""
    marks: list[tuple[Phase, Any]] = []

    def mark(phase: Phase) -> None:
        marks.append((phase, stamps.stamp()))

    unmarked = step.mark
    # Until it is launched, at the end of `compute`, a fused step is only recorded.
    step.mark = (lambda phase: mark(Phase.trace)) if stamps.fused else mark
    start, first = now(), stamps.stamp()
    try:
        batch = step.fetch()
        mark(Phase.data_wait)
        batch = step.copy_in(batch)
        mark(Phase.copy_in)
        result = step.compute(batch)
        if stamps.fused:
            stamps.wait()
            mark(Phase.execute)
        mark(Phase.framework)
        step.copy_out(result)
        mark(Phase.copy_out)
        stamps.wait()
        total = now() - start
    finally:
        step.mark = unmarked
    phases = dict.fromkeys((phase for phase, _ in marks), 0.0)
    for (_, before), (phase, after) in zip([(None, first), *marks], marks, strict=False):
        phases[phase] += stamps.between(before, after)
    phases[Phase.framework] += total - sum(phases.values())
    return phases
