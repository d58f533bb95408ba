"""Where a step's wall time goes: steps timed phase by phase, alternating with steps timed as a whole."""

import time
from typing import Any, Protocol

from accelbench.measuring.runner import ONE_RANK, Now, RankGroup
from accelbench.schema.measurement import Breakdown
from accelbench.schema.vocab import Phase

# Steps timed by phase, and as many as a whole: at least MIN_STEPS, however slow.
MIN_STEPS = 3
MAX_STEPS = 200
# A breakdown whose fewest steps would take more of the cell's time limit is skipped: that limit loses the record.
MAX_SHARE = 0.1


class Stamps(Protocol):
    """How an engine takes time stamps between phases, with as little disturbance as its device allows."""

    fused: bool  # whether the device records a step and runs it as a whole, so that its phases can't be told apart

    def wait(self) -> None: ...  # returns when everything launched on the device is done
    def stamp(self) -> Any: ...  # a stamp that the device reaches when everything launched before it is done
    def between(self, start: Any, end: Any) -> float: ...  # seconds between two stamps that the device has reached


def has_time(step_s: float, timeout_s: float) -> bool:
    """Whether the fewest steps of a breakdown, of `step_s` each, fit into its share of the cell's time limit."""
    return 2 * MIN_STEPS * step_s <= MAX_SHARE * timeout_s


def measure_breakdown(
    step: Any, stamps: Stamps, seconds: float, now: Now = time.perf_counter, ranks: RankGroup = ONE_RANK
) -> Breakdown:
    """Times the phases of steps, alternating with steps that are timed as a whole.

    The phases of a step add up to its wall time: the phase `framework` is what the other phases leave. `step` is a warm
    `Step` that calls its `mark` at the end of each phase of `compute`; it is measured for `seconds`, at least.
    """
    plain: list[float] = []
    phased: list[dict[Phase, float]] = []
    elapsed = 0.0
    while len(plain) < MIN_STEPS or (elapsed < seconds and len(plain) < MAX_STEPS):
        ranks.begin(1)
        start = now()
        step.copy_out(step.compute(step.copy_in(step.fetch())))
        stamps.wait()
        plain.append(now() - start)
        ranks.end()
        ranks.begin(1)
        phased.append(_phased_step(step, stamps, now))
        ranks.end()
        elapsed += plain[-1] + sum(phased[-1].values())
    seen = dict.fromkeys(phase for phases in phased for phase in phases)  # not every step need have every phase
    phases_s = {phase: [phases.get(phase, 0.0) for phases in phased] for phase in seen}
    return Breakdown(phases_s=phases_s, undisturbed_s=plain)


def _phased_step(step: Any, stamps: Stamps, now: Now) -> dict[Phase, float]:
    marks: list[tuple[Phase, Any]] = []

    def mark(phase: Phase) -> None:
        marks.append((phase, stamps.stamp()))

    unmarked = step.mark
    # A fused step is only recorded (traced) until it is launched, at the end of `compute`.
    step.mark = (lambda phase: mark(Phase.trace)) if stamps.fused else mark
    start, previous = now(), stamps.stamp()
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
    for phase, stamp in marks:
        phases[phase] += stamps.between(previous, stamp)
        previous = stamp
    phases[Phase.framework] += total - sum(phases.values())
    return phases
