"""What a lower precision is worth on the machine that measured it, and why."""

from collections import Counter
from collections.abc import Iterator, Sequence

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.pairs import PRECISION, Pair, pairs
from accelbench.judging.row import ceilings_of
from accelbench.judging.warnings import output_error_text
from accelbench.presentation import significant
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
    return "\n".join(_sentence(of_one, f" on the {device}" * has_devices) for (_, device), of_one in found.items())


def _sentence(found: Sequence[Pair], on: str) -> str:
    """Such as `bf16 is 1.28 to 3.39 times as fast as fp32 (5 pairs: 5 likely): ...`; the faster one is named first."""
    value, base = found[0].value, found[0].base_value
    words = Counter(pair.gap.word.value for pair in found)
    about = f"{found[0].what}, {found[0].gap.word}"
    if len(found) > 1:
        about = f"{len(found)} pairs: {', '.join(f'{num} {word}' for word, num in words.items())}"
    ratios = sorted(pair.gap.ratio for pair in found if pair.gap.is_told)
    if not ratios:
        return f"No difference between {value} and {base}{on} can be told ({about})."
    is_slower = ratios[-1] < 1
    first, second = (base, value) if is_slower else (value, base)
    ends = (1 / ratios[-1], 1 / ratios[0]) if is_slower else (ratios[0], ratios[-1])
    spread = " to ".join(dict.fromkeys(map(significant, ends)))
    errors = [error for pair in found if (error := pair.cell.number("output_error"))]
    if differ := output_error_text(Precision(value), max(errors, default=None)):
        about += f"; outputs differ by up to {differ.removeprefix('<')}"
    return f"{first} is {spread} times as fast as {second}{on} ({about}){_why(found[0], is_slower=is_slower)}."


def _why(pair: Pair, *, is_slower: bool) -> str:
    """What speaks for and against it: the CPU's units for the precision, and the rates that the probe reached."""
    reasons = [(text, is_faster != is_slower) for text, is_faster in _facts(pair)]
    because = " and ".join(text for text, agrees in reasons if agrees)
    despite = " and ".join(text for text, agrees in reasons if not agrees)
    return (f": {because}" if because else "") + (f", although {despite}" if despite else "")


def _facts(pair: Pair) -> Iterator[tuple[str, bool]]:
    """Such as `this CPU has bf16 units (amx_bf16)`, and whether it speaks for a faster precision."""
    record, value, base = pair.cell.record, Precision(pair.value), Precision(pair.base_value)
    if record is None:
        return
    has = str(record.environment.get("machine", {}).get("instruction_sets") or "").split()
    lower = formats_of(value)[0]
    if record.cell.device in SHARE_ONE_CPU and has and lower in UNITS:
        own = [name for name in has if name.endswith(UNITS[lower])]
        vectors = next((text for name, text in VECTORS.items() if name in has), "neither AVX2 nor AVX-512")
        units = f"{lower} units ({', '.join(own)})" if own else f"{vectors} and no {lower} units"
        yield f"this CPU has {units}", bool(own)
    ceilings = ceilings_of(record)
    if ceilings and (one := ceilings.flops_per_s.get(lower)) and (other := ceilings.ceiling_of(base)):
        unit = "GOP/s" if value in QUANTIZED else "GFLOP/s"
        rates = f"{significant(one / 1e9)} {unit} in {lower} and {significant(other / 1e9)} in {base}"
        yield f"the probe reached {rates}", one > other
