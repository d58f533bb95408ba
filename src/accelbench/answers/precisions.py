"""What a lower precision is worth on the machine that measured it, and why."""

from collections.abc import Iterator, Sequence

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.pairs import PRECISION, Pair, pairs
from accelbench.judging.row import ceilings_of
from accelbench.presentation import counted, significant
from accelbench.schema.ceilings import formats_of
from accelbench.schema.vocab import QUANTIZED, SHARE_ONE_CPU, Precision

# Precision -> how the instruction sets end that compute in it.
UNITS = {Precision.bf16: ("_bf16",), Precision.fp16: ("_fp16",), Precision.int8: ("_vnni", "_int8")}
VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2"}  # the widest first


def worth(cells: Sequence[MeasuredCell]) -> str:
    """A sentence for each precision and device that was compared with fp32; empty if none was."""
    found: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs(cells, PRECISION):
        found.setdefault((pair.value, pair.cell.cell.device), []).append(pair)
    has_devices = len({device for _, device in found}) > 1
    return " ".join(_sentence(of_one, f" on the {device}" * has_devices) for (_, device), of_one in found.items())


def _sentence(found: Sequence[Pair], on: str) -> str:
    """Such as `bf16: 1.28 to 3.39 times as fast as fp32 (5 pairs), since ...`; the larger speed is named first."""
    value, base = found[0].value, found[0].base_value
    told = [pair for pair in found if pair.gap.is_told]
    if not told:
        return f"{value} and {base}{on}: no difference can be told ({counted(len(found), 'pair')})."
    ratios = [pair.gap.ratio for pair in told]
    is_slower = max(ratios) < 1
    ends = sorted(1 / ratio for ratio in ratios) if is_slower else sorted(ratios)
    first, second = (base, value) if is_slower else (value, base)
    spread = " to ".join(dict.fromkeys(significant(end) for end in (ends[0], ends[-1])))
    about = f"{told[0].what}, {told[0].gap.word}" if len(found) == 1 else counted(len(found), "pair")
    if untold := len(found) - len(told):
        about += f", {untold} of which can't be told"
    why = ", ".join(_why(found[0]))
    return f"{first} is {spread} times as fast as {second}{on} ({about}){f': {why}' if why else ''}."


def _why(pair: Pair) -> Iterator[str]:
    """What the CPU has for the precision, and what the probe of the device reached."""
    record, value, base = pair.cell.record, Precision(pair.value), Precision(pair.base_value)
    if record is None:
        return
    has = str(record.environment.get("machine", {}).get("instruction_sets") or "").split()
    lower = formats_of(value)[0]
    if record.cell.device in SHARE_ONE_CPU and has and lower in UNITS:
        own = [name for name in has if name.endswith(UNITS[lower])]
        vectors = next((text for name, text in VECTORS.items() if name in has), "none of AVX2 and AVX-512")
        yield (
            f"this CPU has {lower} units ({', '.join(own)})" if own else f"this CPU has {vectors} and no {lower} units"
        )
    ceilings = ceilings_of(record)
    if ceilings and (one := ceilings.flops_per_s.get(lower)) and (other := ceilings.ceiling_of(base)):
        unit = "GOP/s" if value in QUANTIZED else "GFLOP/s"
        yield f"the probe reached {significant(one / 1e9)} {unit} in {lower} and {significant(other / 1e9)} in {base}"
