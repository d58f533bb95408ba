"""Where a step's wall time goes: steps timed phase by phase, alternating with steps timed as a whole."""

from accelbench.measuring.runner import Ask, Clock, Stamps
from accelbench.schema.measurement import Breakdown
from accelbench.schema.vocab import Phase

# Steps timed by phase, and as many as a whole: at least MIN_STEPS, however slow.
MIN_STEPS = 3
MAX_STEPS = 200
# A breakdown whose fewest steps would take more of the cell's time limit is skipped: that limit loses the record.
MAX_SHARE = 0.1


def breakdown(stamps: Stamps, seconds: float) -> Clock[Breakdown]:
    """Times the phases of steps, alternating with steps that are timed as a whole, for so many seconds, at least.

    The phases of a step add up to its wall time.
    """
    plain: list[float] = []
    phased: list[dict[Phase, float]] = []
    elapsed = 0.0
    while len(plain) < MIN_STEPS or (elapsed < seconds and len(plain) < MAX_STEPS):
        whole = yield Ask(copies_out=True)
        in_phases = yield Ask(stamps=stamps)
        plain.append(whole.seconds)
        phased.append(in_phases.phases_s)
        elapsed += whole.seconds + in_phases.seconds
    seen = dict.fromkeys(phase for phases in phased for phase in phases)  # not every step need have every phase
    phases_s = {phase: [phases.get(phase, 0.0) for phases in phased] for phase in seen}
    return Breakdown(phases_s=phases_s, undisturbed_s=plain)
