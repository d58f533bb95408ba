"""Whether other programs disturbed the measurements, and how large a difference says nothing then."""

from collections.abc import Sequence

from accelbench.presentation import significant
from accelbench.report.read import Sweep
from accelbench.schema.serialize import group_key

NOISY = 0.1  # of all processes
LARGE = 1.2  # times: a difference between two measurements of one setting that is no small one


def noise(sweeps: Sequence[Sweep]) -> str:
    """Says so if other programs used the CPU during a tenth of the processes or more."""
    measured = [each for sweep in sweeps for each in sweep.planned if each.record and each.record.measurement]
    beside = [each.compared is not None and each.compared.was_beside_others for each in measured]
    if sum(beside) < max(1.0, NOISY * len(beside)):
        return ""
    ratio = _disagreement(sweeps)
    trust = (
        f"The same setting was up to {significant(ratio, 2)} times as fast as another time: don't trust differences "
        "below that."
        if ratio > LARGE
        else "Don't trust small differences."
    )
    return f"Noisy machine: {sum(beside):,} of {len(beside):,} processes shared the CPU with other programs. {trust}"


def _disagreement(sweeps: Sequence[Sweep]) -> float:
    """The largest ratio of two speeds of one setting, in whatever windows and sweeps; 1 if none was measured twice."""
    rates: dict[str, list[float]] = {}
    for reported in (reported for sweep in sweeps for reported in sweep.processes):
        if reported.is_ok and (rate := reported.number("samples_per_s")):
            key = group_key([reported.all_but("repeat", "seed", "window"), reported.place_key])
            rates.setdefault(key, []).append(rate)
    return max((max(each) / min(each) for each in rates.values()), default=1.0)
