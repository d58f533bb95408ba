"""What a lower precision is worth on the machine that measured it, and why."""

from collections import Counter
from collections.abc import Iterator, Sequence

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.pairs import PRECISION, Pair, pairs
from accelbench.answers.sentences import Answer
from accelbench.answers.words import MODES, setting_text
from accelbench.judging.row import ceilings_of
from accelbench.judging.warnings import output_error_text
from accelbench.presentation import significant
from accelbench.schema.ceilings import formats_of
from accelbench.schema.vocab import QUANTIZED, SHARE_ONE_CPU, Precision

# Precision -> how the instruction sets end that compute in it.
UNITS = {Precision.bf16: ("_bf16",), Precision.fp16: ("_fp16",), Precision.int8: ("_vnni", "_int8")}
VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2"}  # the widest first


def worth(answers: Sequence[Answer], cells: Sequence[MeasuredCell]) -> str:
    """A sentence for each precision and device that was compared with fp32; empty if none was."""
    found: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs(cells, PRECISION):
        found.setdefault((pair.value, pair.cell.cell.device), []).append(pair)
    has_devices = len({device for _, device in found}) > 1
    return "\n".join(
        f"{_sentence(of_one, f' on the {device}' * has_devices)}{_overall(answers, of_one)}"
        for (_, device), of_one in found.items()
    )


def _sentence(found: Sequence[Pair], on: str) -> str:
    """Such as `bf16 is 1.28 to 3.39 times as fast as fp32 (5 pairs: 5 likely): ...`; the faster one is named first."""
    value, base = found[0].value, found[0].base_value
    words = Counter(pair.gap.word.value for pair in found)
    about = f"{found[0].what}, {found[0].gap.word}"
    if len(found) > 1:
        about = f"{len(found)} pairs: {', '.join(f'{num} {word}' for word, num in words.items())}"
    if num_doubtful := sum(pair.gap.is_doubtful for pair in found):
        about += f", {num_doubtful} with a number in doubt !"
    told = sorted((pair.gap for pair in found if pair.gap.is_told), key=lambda gap: gap.ratio)
    if not told:
        return f"No difference between {value} and {base}{on} can be told ({about})."
    errors = [error for pair in found if (error := pair.cell.number("output_error"))]
    if differ := output_error_text(Precision(value), max(errors, default=None)):
        about += f"; outputs differ by up to {differ.removeprefix('<')}"
    is_slower = told[-1].ratio < 1
    ends = sorted((1 / gap.ratio if is_slower else gap.ratio, gap.is_doubtful) for gap in (told[0], told[-1]))
    spread = " to ".join(dict.fromkeys(f"{significant(ratio)}{' !' * is_doubtful}" for ratio, is_doubtful in ends))
    faster = f"{spread} times as fast as"
    verdict = (
        f"{value} pays: it is {faster} {base}" if told[0].ratio > 1 else f"{value} pays in part: it is {faster} {base}"
    )
    if is_slower:
        verdict = f"{value} does not pay: {base} is {faster} {value}"
    return f"Within one engine{on}, {verdict} ({about}){_why(found[0], is_slower=is_slower)}."


def _overall(answers: Sequence[Answer], found: Sequence[Pair]) -> str:
    """Where the precision is the fastest of all settings, and what beats it elsewhere, as far as can be told."""
    value, cells = found[0].value, {pair.cell.measured_key for pair in found}
    wins, losses = [], dict[str, list[str]]()
    for answer in answers:
        own = next((cell for cell in answer.group.cells if cell.measured_key in cells), None)
        if own is None or answer.lead is None or not answer.group.has_engines:
            continue
        name = f"{answer.model} {MODES[answer.fastest.cell.mode]}"
        if answer.fastest.cell.precision == value:
            wins += [name] * answer.lead.is_told
        elif (gap := answer.group.gap_to(own)).is_told and answer.fastest.cell.engine != own.cell.engine:
            setting = setting_text(answer.fastest, has_devices=False, has_engines=True)
            losses.setdefault(setting, []).append(f"{gap.text} as it in {name}{' !' * gap.is_doubtful}")
    parts = [f"it is the fastest in {', '.join(wins)}"] if wins else []
    parts += [f"{setting} is {', '.join(names)}" for setting, names in losses.items()]
    return f" Across engines, {'; '.join(parts)}." if parts else ""


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
        kinds = {
            "convolutions" if ceilings.how[word].startswith("conv") else "matrix products" for word in (lower, base)
        }
        rates = f"{significant(one / 1e9)} {unit} in {lower} and {significant(other / 1e9)} in {base}"
        yield f"{' and '.join(sorted(kinds))} reached {rates}", one > other
