"""How our measurements stand to the five studies, in the report's headline."""

from collections.abc import Iterator, Sequence

from accelbench.presentation import counted, significant
from accelbench.report.read import Sweep
from accelbench.schema.vocab import Device, Mode
from five_studies.comparison import PublishedComparison, compare_with_published


def headline(sweeps: Sequence[Sweep]) -> str:
    """Our times over the published ones by device, and the speed-ups between devices that can be compared."""
    found = [
        (each, f"study {sweep.study}")
        for sweep in sweeps
        if sweep.study
        for mode in Mode
        for each in compare_with_published(sweep, mode)
    ]
    return " ".join(filter(None, [*_times(found), _speedups([each for each, _ in found])]))


def _times(found: Sequence[tuple[PublishedComparison, str]]) -> Iterator[str]:
    """Of each device, our times with the study's own framework over the published ones."""
    for device in Device:
        ratios, studies, num_estimated = [], set(), 0
        for each, study in found:
            ours = next(iter(each.ours.values()))  # the study's own framework
            seconds = (
                ours.seconds if each.mode == Mode.train else ours.evaluation
            )  # inference is a part of testing alone
            if each.device == device and each.published and seconds:
                ratios.append(seconds.value / each.published.value)
                studies.add(study)
                num_estimated += seconds.estimated
        if ratios:
            ends = " to ".join(dict.fromkeys(significant(end, 2) for end in (min(ratios), max(ratios))))
            jobs = f"{counted(len(ratios), 'job')} of {' and '.join(sorted(studies))} ({num_estimated} estimated)"
            yield f"On this {device}, {jobs} took {ends} times as long as published on other machines."


def _speedups(found: Sequence[PublishedComparison]) -> str:
    """How many of the published speed-ups over the CPU have one of ours beside them."""
    theirs = [each for each in found if each.published_speedup and each.device != Device.cpu]
    both = [each for each in theirs if any(ours.speedup for ours in each.ours.values())]
    if not theirs:
        return ""
    if not both:
        return f"None of their {len(theirs)} speed-ups over the CPU can be compared: such devices were not measured."
    higher = sum(
        max(ours.speedup or 0.0 for ours in each.ours.values()) > (each.published_speedup or 0.0) for each in both
    )
    return f"Of their {len(theirs)} speed-ups over the CPU, {len(both)} were measured here, {higher} of them higher."
