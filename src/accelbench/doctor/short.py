"""The summary of `accelbench doctor`: a dozen lines of 80 columns."""

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text

from accelbench.doctor.facts import GB, NOT_PROBED, TOO_LOW, Facts, data_sets, described, plain, runs, settings_of
from accelbench.doctor.full import grid
from accelbench.errors import UserError
from accelbench.presentation import significant
from accelbench.project import PARAMS, Workplace
from accelbench.schema.vocab import NOT_QUANTIZED, Device, Engine, Precision

LEFT_OUT = ("physical_cores", "logical_cores", "instruction_sets")  # details of a device
FOOT = "* not with every network or engine; for details: accelbench doctor --all"


def view(facts: Facts) -> RenderableType:
    """The lines, for rich to print."""
    present = [report.device for report in facts.reports if report.present]
    absent = [report.device for report in facts.reports if not report.present]
    head = f"{_listed(present)} {'run' if len(present) > 1 else 'runs'} here"
    head += f"; not here: {_listed(absent)}" if absent else ""
    table = grid("", "")
    for report in facts.reports:
        if not report.present:
            table.add_row(report.device, Text(report.reason or ""))
        elif report.device != Device.xla_cpu:  # the CPU again
            table.add_row(report.device, Text(described(report, but=LEFT_OUT)))
            if sets := report.details.get("instruction_sets"):
                table.add_row("", Text(sets))
    if Device.gpu in present and not facts.tensorflow.found:
        table.add_row("gpu in keras", Text(facts.tensorflow.text))
    table.add_row("engines", Text(_engines()))
    for device in present:
        table.add_row(f"on {device}", Text(_precisions(facts, device)))
    table.add_row("at most", Text(_peaks(facts)))
    table.add_row("data", Text(_data(facts.place)))
    table.add_row("project", settings_of(facts.place, briefly=True))
    return Group(Text(head, style="bold"), table, Text(FOOT, "dim"))


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words)


def _engines() -> str:
    there = [engine for engine in Engine if runs(plain(engine))]
    missing = [engine for engine in Engine if engine not in there]
    return _listed(there) + (f"; not installed: {_listed(missing)}" if missing else "")


def _precisions(facts: Facts, device: Device) -> str:
    """Such as `bf16, fp32, fp16*`: an asterisk where not all of our own networks run, or no engine but a few."""
    words = []
    for precision in NOT_QUANTIZED:
        found = [kind.reason is None for kind in facts.kinds if (kind.device, kind.precision) == (device, precision)]
        if any(found):
            words.append(f"{precision}{'' if all(found) else '*'}")
    if device == Device.cpu and any(runs(plain(engine, Precision.int8)) for engine in Engine):
        words.append(f"{Precision.int8}*")
    return _listed(words)


def _peaks(facts: Facts) -> str:
    """Such as `cpu: fp32 462, bf16 813; xla_cpu: fp32 369 GFLOP/s`, and which were probed beside other load."""
    parts = [
        f"{device}: {_listed(f'{word} {significant(rate / GB)}' for word, rate in ceilings.flops_per_s.items())}"
        for device, ceilings in facts.ceilings.items()
    ]
    disturbed = [f"{device} {word}" for device, ceilings in facts.ceilings.items() for word in ceilings.disturbed]
    remark = f" ({TOO_LOW}: {_listed(disturbed)})" if disturbed else ""
    return f"{'; '.join(parts)} GFLOP/s{remark}" if parts else NOT_PROBED


def _data(place: Workplace) -> str:
    """Such as `1 ready, 4 stand-in, 3 not prepared yet`."""
    try:
        found = data_sets(place).values()
    except UserError:
        return f"unknown: {PARAMS} is not readable"
    states = [
        "not prepared yet" if isinstance(each, str) else "stand-in" if each.stand_in else "ready" for each in found
    ]
    counts = {state: states.count(state) for state in ("ready", "stand-in", "not prepared yet")}
    return _listed(f"{num} {state}" for state, num in counts.items() if num) or "none yet"
