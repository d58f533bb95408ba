"""What a lower precision is worth on the machine that measured it, and why."""

from collections import Counter
from collections.abc import Sequence

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.pairs import PRECISION, Pair, pairs, summary
from accelbench.judging.roofline import ceilings_of
from accelbench.presentation import significant, unit_of_work
from accelbench.schema.ceilings import formats_of
from accelbench.schema.serialize import grouped
from accelbench.schema.vocab import QUANTIZED, SHARE_ONE_CPU, Precision


def worth(cells: Sequence[MeasuredCell]) -> str:
    """A line for each precision, device and machine that was compared with fp32; else empty."""
    found = grouped(pairs(cells, PRECISION), lambda pair: (pair.value, pair.cell.cell.device, _machine(pair.cell)))
    nums = Counter(device for device, _ in {(device, machine) for _, device, machine in found})
    lines = []
    for (value, device, machine), of_one in found.items():
        on = f" on the {device}" if len(nums) > 1 else ""
        if nums[device] > 1:
            on += f" ({machine})"
        said = summary(of_one, value, of_one[0].base_value)
        lines.append(f"With the same engine and batch{on}, {said}.{_probed(of_one[0])}")
    return "\n".join(lines)


def _machine(cell: MeasuredCell) -> str:
    """The name of what computed it."""
    machine = cell.environment.get("machine", {})
    return str((machine.get("cpu_name") if cell.cell.device in SHARE_ONE_CPU else cell.row["device_name"]) or "")


def _probed(pair: Pair) -> str:
    """Such as ` In the probe of matrix products bf16 is 3.82 times as fast as fp32 (935 against 245 GFLOP/s).`."""
    record = pair.cell.record
    value = Precision(pair.value)
    base = Precision(pair.base_value)
    ceilings = ceilings_of(record) if record else None
    if ceilings is None or ceilings.disturbance(base):
        return ""
    lower = formats_of(value)[0]
    probed = {base.value: ceilings.ceiling_of(base), lower: ceilings.flops_per_s.get(lower)}
    known = sorted(((rate, name) for name, rate in probed.items() if rate), reverse=True)
    if len(known) < 2:
        return ""
    (high, first), (low, second) = known
    unit, size = unit_of_work(high, is_quantized=value in QUANTIZED)
    gain = f"{first} is {significant(high / low)} times as fast as {second}"
    rates = f"{significant(high / size)} against {significant(low / size)} {unit}"
    return f" In the probe of matrix products {gain} ({rates})."
