"""What a lower precision is worth on the machine that measured it, and why."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from accelbench.answers.cells import MeasuredCell, Word, gap
from accelbench.answers.pairs import PRECISION, Pair, pairs
from accelbench.answers.sentences import Answer
from accelbench.answers.words import MODES, choice_text
from accelbench.judging.roofline import ceilings_of
from accelbench.judging.warnings import output_error_text
from accelbench.presentation import counted, significant, unit_of_work
from accelbench.schema.ceilings import formats_of
from accelbench.schema.serialize import grouped
from accelbench.schema.vocab import QUANTIZED, SHARE_ONE_CPU, Device, Precision

# Precision -> how the instruction sets end that compute in it.
UNITS = {Precision.bf16: ("_bf16",), Precision.fp16: ("_fp16",), Precision.int8: ("_vnni", "_int8")}
# What every GPU of compute capability 8 has tensor cores for, and none has for fp32 (CUDA C++ Programming Guide).
ON_TENSOR_CORES = (Precision.tf32, Precision.bf16, Precision.fp16)
VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2"}  # the widest first
MAX_NAMED, MAX_LINES = 8, 5


def worth(answers: Sequence[Answer], cells: Sequence[MeasuredCell]) -> str:
    """A line for each precision, device and machine compared with fp32, short if over `MAX_LINES`; "" without any."""
    found = grouped(pairs(cells, PRECISION), lambda pair: (pair.value, pair.cell.cell.device, _machine(pair.cell)))
    places = {(device, machine) for _, device, machine in found}
    nums = Counter(device for device, _ in places)
    lines: list[str] = []
    for (_, device, machine), of_one in found.items():
        on = f" on the {device}" * (len(nums) > 1) + f" ({machine})" * (nums[device] > 1)
        verdict = _verdict(answers, of_one, on)
        is_short = verdict and len(found) > MAX_LINES
        lines.append(verdict if is_short else f"{verdict} {_figures(of_one, on * (not verdict))}".strip())
    return "\n".join(lines)


def _machine(cell: MeasuredCell) -> str:
    """The name of what computed it."""
    machine = cell.environment.get("machine", {})
    return str((machine.get("cpu_name") if cell.cell.device in SHARE_ONE_CPU else cell.row["device_name"]) or "")


def _verdict(answers: Sequence[Answer], found: Sequence[Pair], on: str) -> str:
    """Such as `With the fastest setting of each, bf16 is faster than fp32 in mlp training.`; empty of no answer."""
    keys = {pair.cell.measured_key for pair in found}
    said: list[tuple[Answer, str, bool]] = []
    for answer in answers:
        own = next((cell for cell in answer.group.cells if cell.measured_key in keys), None)
        if own and (said_of_it := _outcome(answer, own, found[0].base_value)):
            said.append((answer, *said_of_it))
    names: dict[str, list[str]] = {}
    for answer, outcome, is_doubtful in said:
        name = answer.name_among([each for each, *_ in said])
        doubt = " (a number in doubt)" * is_doubtful
        names.setdefault(outcome, []).append(f"{name} {MODES[answer.fastest.cell.mode]}{doubt}")
    parts = "; ".join(f"{outcome} in {_joined(of_one)}" for outcome, of_one in names.items())
    return f"With the fastest setting of each{on}, {parts}." if parts else ""


def _outcome(answer: Answer, own: MeasuredCell, base: str) -> tuple[str, bool] | None:
    """In words, `own`'s best precision beside its device's best in `base`, and whether it is in doubt; or None."""
    here = [each for each in answer.group.cells if each.cell.device == own.cell.device]
    lower, others = ([each for each in here if each.cell.precision == of] for of in (own.cell.precision, base))
    if not others:
        return None
    best = gap(lower[0], others[0])
    fastest = best.first if best.ratio > 1 else best.second
    if any(fastest.cell.batch_size not in {each.cell.batch_size for each in of} for of in (lower, others)):
        return f"{own.cell.precision} and {base} were not compared at the fastest batch size", best.is_doubtful
    like = {(each.cell.engine, each.cell.options) for each in lower}
    if best.is_told and best.ratio < 1 and (fastest.cell.engine, fastest.cell.options) not in like:
        setting = choice_text(fastest, has_engines=True)
        return f"{base} with {setting}, which {own.cell.precision} was not measured with, is faster", best.is_doubtful
    if best.word == Word.cant_tell:
        return f"it can't be told whether {own.cell.precision} or {base} is faster", best.is_doubtful
    how = "as fast as" if best.word == Word.same else "faster than" if best.ratio > 1 else "slower than"
    return f"{own.cell.precision} is {how} {base}", best.is_doubtful


def _joined(names: Sequence[str]) -> str:
    more = [f"{len(names) - MAX_NAMED} more"] if len(names) > MAX_NAMED else []
    kept = [*names[:MAX_NAMED], *more]
    return " and ".join(filter(None, [", ".join(kept[:-1]), kept[-1]]))


def _figures(found: Sequence[Pair], on: str) -> str:
    """Such as `With the same engine and batch, bf16 is 1.28 to 3.39 times as fast as fp32 in 5 of 6 pairs, ...`."""
    value, base = found[0].value, found[0].base_value
    gaps = [pair.gap for pair in found]
    told = [pair for pair in found if pair.gap.is_told]
    gains = [pair.gap.ratio for pair in told if pair.gap.ratio > 1]
    losses = [1 / pair.gap.ratio for pair in told if pair.gap.ratio <= 1]
    num_same, num_untold = (sum(each.word == word for each in gaps) for word in (Word.same, Word.cant_tell))
    cases = [
        (len(gains), f"{value} is {_span(gains)} times as fast as {base}"),
        (len(losses), f"{base} is {_span(losses)} times as fast as {value}"),
        (num_same, "they are equally fast"),
        (num_untold, "can't tell"),
    ]
    first, *others = [f"{text} in {num}" for num, text in cases if num]
    parts = ", ".join([f"{first} of {counted(len(found), 'pair')}", *others])
    about = [f"{num} {word}" for word, num in Counter(pair.gap.word.value for pair in told).items()]
    if num_doubtful := sum(each.is_doubtful for each in gaps):
        about.append(f"{num_doubtful} with a number in doubt")
    error = max((error for pair in found if (error := pair.cell.number("output_error"))), default=None)
    if differ := output_error_text(Precision(value), error):
        about.append(f"outputs differ by up to {differ.removeprefix('<')}")
    said = f" ({', '.join(about)})" if about else ""
    facts = "" if bool(gains) == bool(losses) else _shared_facts(told)
    return f"With the same engine and batch{on}, {parts}{said}.{facts}"


def _span(ratios: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(significant(end(ratios)) for end in (min, max))) if ratios else ""


def _shared_facts(told: Sequence[Pair]) -> str:
    """What holds for all of these pairs, in a sentence: the CPU's units for the precision, and the probed rates."""
    every = [list(_facts(pair)) for pair in told]
    shared = [fact for fact in every[0] if all(fact in facts for facts in every)]
    agree = len({is_faster for _, is_faster in shared}) < 2
    text = (", and " if agree else ", but ").join(text for text, _ in shared)
    return f" {text[0].upper()}{text[1:]}." if text else ""


def _facts(pair: Pair) -> Iterator[tuple[str, bool]]:
    """Such as `this CPU has bf16 units (amx_bf16)`, and whether it speaks for a faster precision."""
    record, value, base = pair.cell.record, Precision(pair.value), Precision(pair.base_value)
    if record is None:
        return
    machine, lower = record.environment.get("machine", {}), formats_of(value)[0]
    has = str(machine.get("instruction_sets") or "").split()
    if record.cell.device in SHARE_ONE_CPU and has and lower in UNITS:
        own = [name for name in has if name.endswith(UNITS[lower])]
        vectors = next((text for name, text in VECTORS.items() if name in has), "neither AVX2 nor AVX-512")
        units = f"{lower} units ({', '.join(own)})" if own else f"{vectors} and no {lower} units"
        yield f"this CPU has {units}", bool(own)
    asked = [each.get("compute_capability") or "" for each in machine.get("gpu_details", [])[:1]]  # every cell uses it
    has_cores = any((major := re.match(r"\d{1,3}", each)) and int(major[0]) >= 8 for each in asked)
    if has_cores and (record.cell.device, base) == (Device.gpu, Precision.fp32) and lower in ON_TENSOR_CORES:
        yield f"this GPU has tensor cores for {lower} and none for fp32", True
    ceilings = ceilings_of(record)
    if ceilings is None or ceilings.disturbance(base):
        return
    if (one := ceilings.flops_per_s.get(lower)) and (other := ceilings.ceiling_of(base)):
        unit, size = unit_of_work(max(one, other), is_quantized=value in QUANTIZED)
        (first, high), (second, low) = sorted([(lower, one), (base, other)], key=lambda pair: -pair[1])
        gain = f"{first} is {significant(high / low)} times as fast as {second}"
        rates = f"{significant(high / size)} against {significant(low / size)} {unit}"
        yield f"in the probe of matrix products {gain} ({rates})", one > other
