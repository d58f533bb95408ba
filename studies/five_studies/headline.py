"""Compares our measurements with the five studies, in the report's headline."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from accelbench.presentation import counted
from accelbench.report.read import Sweep
from accelbench.report.table import Entry
from five_studies import beside, published
from five_studies.comparison import STAND_IN
from five_studies.speedups import beside_ours, span


def headline(sweeps: Sequence[Sweep]) -> str:
    """Our times over the published times for each device, and the number of speed-ups that can be compared."""
    return " ".join(filter(None, [*_times(sweeps), _speedups(sweeps)]))


def _times(sweeps: Sequence[Sweep]) -> Iterator[str]:
    """For each device, our times over the published times. The study's own framework is used if it was measured."""
    found: dict[str, dict[tuple[str, ...], list[Entry]]] = defaultdict(lambda: defaultdict(list))
    of_stand_ins = Counter[str]()
    for sweep in sweeps:
        for each in beside.every_pair(sweep):  # one job may have published times of several machines
            of_job = found[each.device][str(sweep.study), each.network, each.job]
            of_stand_ins[each.device] += bool(each.stand_in and not of_job)
            of_job.append(each.own_ratio)
    for device, jobs in found.items():
        names = [f"{study} ({published.studies()[study]['name']})" for study in sorted({study for study, *_ in jobs})]
        of = f"stud{'y' if len(names) == 1 else 'ies'} {', '.join(names)}"
        num_less = _num_less(jobs.values())
        less = f"On our {device}, {num_less} of {counted(len(jobs), 'job')} of {of} took less time than on any machine"
        estimated = _caveats(jobs.values(), of_stand_ins[device])
        times = span([ratio for of_job in jobs.values() for ratio in of_job], 2)
        framework = "Our times (in the study's framework, if it was measured) are"
        yield f"{less} there. {framework} {times} times the published ones{estimated}."


def tiles(sweeps: Sequence[Sweep]) -> list[tuple[str, str]]:
    """For the report's first screen: the number of published jobs that took less time here."""
    found: dict[tuple[str, ...], list[Entry]] = defaultdict(list)
    of_stand_ins = set[tuple[str, ...]]()
    for sweep in sweeps:
        for each in beside.every_pair(sweep):
            job = (each.device, str(sweep.study), each.network, each.job)
            found[job].append(each.own_ratio)
            if each.stand_in:
                of_stand_ins.add(job)
    ours = _caveats(found.values(), len(of_stand_ins))
    text = f"{_num_less(found.values())} of {len(found)}"
    return [(text, f"published jobs took less time here{ours}")] if found else []


def _caveats(jobs: Iterable[Sequence[Entry]], num_of_stand_ins: int) -> str:
    """The end of a sentence, such as `; 13 of ours estimated; 2 of ours of a stand-in`. Empty if none needs it."""
    num_estimated = sum(any(ratio.text.startswith("~") for ratio in of_job) for of_job in jobs)
    counts = {"estimated": num_estimated, f"of a {STAND_IN}": num_of_stand_ins}
    return "".join(f"; {num} of ours {what}" for what, num in counts.items() if num)


def _num_less(jobs: Iterable[Sequence[Entry]]) -> int:
    """The number of jobs that took less time here than on every machine with a published time."""
    return sum(all(float(ratio.key or 0.0) < 1 for ratio in of_job) for of_job in jobs)


def _speedups(sweeps: Sequence[Sweep]) -> str:
    """The number of published speed-ups over the CPU for which we have a matching speed-up."""
    theirs = [each for sweep in sweeps for each in beside_ours(sweep)]
    theirs = [each for each in theirs if each.is_over_cpu]
    both = [each for each in theirs if each.ours]
    if theirs and not both:
        devices = dict.fromkeys(each.devices.partition(" ")[0] for each in theirs)
        cells = [cell for sweep in sweeps for cell in sweep.cells]
        ran = {cell.cell.device.value for cell in cells if cell.is_ok}
        why = "no pair of our cells gives one" if ran & set(devices) else "no cell of such a device was measured"
        names = " and ".join(map(str.upper, devices))
        return f"Their {counted(len(theirs), 'speed-up')} of {names} over the CPU could not be checked: {why}."
    higher = sum(float(each.ours[0].key or 0.0) > float(each.gain.key or 0.0) for each in both)
    counts = f"we measured {len(both)}, {higher} of them higher"
    return f"Of their {counted(len(theirs), 'speed-up')} over the CPU, {counts}." if theirs else ""
