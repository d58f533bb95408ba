"""How our measurements stand to the five studies, in the report's headline."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from accelbench.presentation import counted
from accelbench.report.read import Sweep
from accelbench.schema.vocab import Device, Mode
from five_studies import beside
from five_studies.comparison import compare_with_published
from five_studies.speedups import span


def headline(sweeps: Sequence[Sweep]) -> str:
    """Our times over the published ones by device, and the speed-ups between devices that can be compared."""
    return " ".join(filter(None, [*_times(sweeps), _speedups(sweeps)]))


def _times(sweeps: Sequence[Sweep]) -> Iterator[str]:
    """Of each device, our times with the study's own framework over the published ones."""
    found = defaultdict(list)
    for sweep in sweeps:
        for each in beside.pairs(sweep):
            found[each.device].append((each.own_ratio, str(sweep.study)))
    for device, of_device in found.items():
        ratios = [ratio for ratio, _ in of_device]
        num_estimated = sum(ratio.text.startswith("~") for ratio in ratios)
        studies = ", ".join(sorted({study for _, study in of_device}))
        num_less = sum(float(ratio.key or 0.0) < 1 for ratio in ratios)
        jobs = f"{num_less} of {counted(len(ratios), 'job')} of studies {studies} took less time on this {device}"
        estimated = f"; {num_estimated} are estimated from the speed" * bool(num_estimated)
        yield f"{jobs} than published on other machines ({span(ratios, 2)} times as long{estimated})."


def _speedups(sweeps: Sequence[Sweep]) -> str:
    """How many of the published speed-ups over the CPU have one of ours beside them."""
    found = [each for sweep in sweeps if sweep.study for mode in Mode for each in compare_with_published(sweep, mode)]
    theirs = [each for each in found if each.published_speedup and each.device != Device.cpu]
    both = [(each, gains) for each in theirs if (gains := [own.speedup for own in each.ours.values() if own.speedup])]
    if theirs and not both:
        devices = " and ".join(dict.fromkeys(each.device.upper() for each in theirs))
        return f"Their {len(theirs)} speed-ups of {devices} over the CPU could not be checked: no such device here."
    higher = sum(max(gains) > (each.published_speedup or 0.0) for each, gains in both)
    said = f"Of their {len(theirs)} speed-ups over the CPU, {len(both)} were measured here, {higher} of them higher."
    return said if theirs else ""
