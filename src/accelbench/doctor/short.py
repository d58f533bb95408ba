"""The summary of `accelbench doctor`."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.text import Text

from accelbench.devices.registry import look
from accelbench.doctor import tensorflow_gpus
from accelbench.doctor.facts import GB, NOT_PROBED, TOO_LOW, data_sets, facts, grid, settings_of
from accelbench.doctor.support import Support, judge, own_models, plain, runs
from accelbench.errors import UserError
from accelbench.grid import fingerprint
from accelbench.presentation import significant
from accelbench.project import PARAMS, Workplace
from accelbench.schema.ceilings import read_ceilings
from accelbench.schema.vocab import NOT_QUANTIZED, Device, Engine, Precision
from accelbench.sweep.prober import PROBING_ENGINE

LEFT_OUT = ("physical_cores", "logical_cores", "instruction_sets")  # details of a device that the summary leaves out
FOOT = "* not with every network or engine; for details: accelbench doctor --all"


def summarise(place: Workplace) -> RenderableType:
    """What `examine` finds in a dozen lines of 80 columns.

    Args:
        place: whose configuration, data sets and ceilings are shown.

    Raises:
        UserError: a file in conf/model is not readable.
    """
    reports = [look(device) for device in Device]
    present = [report for report in reports if report.present]
    absent = [report for report in reports if not report.present]
    head = f"{_listed(report.device for report in present)} {'run' if len(present) > 1 else 'runs'} here"
    head += f"; not here: {_listed(report.device for report in absent)}" if absent else ""
    table = grid("", "")
    for report in reports:
        if not report.present:
            table.add_row(report.device, Text(report.reason or ""))
        elif report.device != Device.xla_cpu:  # the CPU again
            table.add_row(report.device, Text(facts(report, but=LEFT_OUT)))
            if sets := report.details.get("instruction_sets"):
                table.add_row("", Text(sets))
    tensorflow = tensorflow_gpus.look()
    if look(Device.gpu).present and not tensorflow.found:
        table.add_row("gpu in keras", Text(tensorflow.text))
    table.add_row("engines", Text(_engines()))
    verdicts = list(judge(present, own_models(place.conf)))
    for report in present:
        table.add_row(f"on {report.device}", Text(_precisions(verdicts, report.device)))
    table.add_row("at most", Text(_peaks(place)))
    table.add_row("data", Text(_data(place)))
    table.add_row("project", settings_of(place, briefly=True))
    return Group(Text(head, style="bold"), table, Text(FOOT, "dim"))


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words)


def _engines() -> str:
    there = [engine for engine in Engine if runs(plain(engine))]
    missing = [engine for engine in Engine if engine not in there]
    return _listed(there) + (f"; not installed: {_listed(missing)}" if missing else "")


def _precisions(verdicts: Sequence[Support], device: Device) -> str:
    """Such as `bf16, fp32, fp16*`: an asterisk where not all of our own networks run, or no engine but a few."""
    words = []
    for precision in NOT_QUANTIZED:
        found = [v.reason is None for v in verdicts if (v.device, v.precision) == (device, precision)]
        if any(found):
            words.append(f"{precision}{'' if all(found) else '*'}")
    if device == Device.cpu and any(runs(replace(plain(engine), precision=Precision.int8)) for engine in Engine):
        words.append(f"{Precision.int8}*")
    return _listed(words)


def _peaks(place: Workplace) -> str:
    """Such as `cpu: fp32 462, bf16 813; xla_cpu: fp32 369 GFLOP/s`, and which were probed beside other load."""
    known = read_ceilings(place.cache, fingerprint.fingerprint(PROBING_ENGINE))
    parts = [
        f"{device}: {_listed(f'{word} {significant(rate / GB)}' for word, rate in ceilings.flops_per_s.items())}"
        for device, ceilings in known.items()
    ]
    disturbed = [f"{device} {word}" for device, ceilings in known.items() for word in ceilings.disturbed]
    remark = f" ({TOO_LOW}: {_listed(disturbed)})" if disturbed else ""
    return f"{'; '.join(parts)} GFLOP/s{remark}" if parts else NOT_PROBED


def _data(place: Workplace) -> str:
    """Such as `1 ready, 4 stand-in, 3 not prepared yet`."""
    try:
        found = data_sets(place)
    except UserError:
        return f"unknown: {PARAMS} is not readable"
    counts = {
        "ready": sum(each.data is not None and not each.data.stand_in for each in found),
        "stand-in": sum(each.data is not None and each.data.stand_in for each in found),
        "not prepared yet": sum(each.data is None for each in found),
    }
    return _listed(f"{num} {state}" for state, num in counts.items() if num) or "none yet"
