"""What a lower precision is worth on the machine that measured it, and why."""

from collections import Counter
from collections.abc import Iterator, Sequence

from accelbench.answers.cells import MeasuredCell, Word, gap
from accelbench.answers.pairs import PRECISION, Pair, pairs
from accelbench.answers.sentences import Answer
from accelbench.answers.words import MODES, choice_text, model_text, setting_text
from accelbench.judging.row import ceilings_of
from accelbench.judging.warnings import output_error_text
from accelbench.presentation import significant
from accelbench.schema.ceilings import formats_of
from accelbench.schema.vocab import QUANTIZED, SHARE_ONE_CPU, Precision

# Precision -> how the instruction sets end that compute in it.
UNITS = {Precision.bf16: ("_bf16",), Precision.fp16: ("_fp16",), Precision.int8: ("_vnni", "_int8")}
VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2"}  # the widest first
# What is said of a network where a precision is neither faster nor slower than fp32, and where that was not measured.
OTHERWISE = {Word.same: "makes no difference", Word.cant_tell: "can't be told from fp32"}
BATCH = "was not compared at the fastest batch size"
MAX_NAMED = 8
TERA = 1e13  # operations per second from which they are given in TFLOP/s


def worth(answers: Sequence[Answer], cells: Sequence[MeasuredCell]) -> str:
    """Two sentences for each precision, device and machine that was compared with fp32; empty if none was."""
    found: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in pairs(cells, PRECISION):
        found.setdefault((pair.value, pair.cell.cell.device, _machine(pair.cell)), []).append(pair)
    places = {(device, machine) for _, device, machine in found}
    nums = Counter(device for device, _ in places)
    lines = []
    for (value, device, machine), of_one in found.items():
        on = f" on the {device}" * (len(nums) > 1) + f" ({machine})" * (nums[device] > 1)
        verdict = _verdict(answers, of_one)
        lines += [f"{value}{on} {verdict}."] * bool(verdict) + [_figures(of_one)]
    return "\n".join(lines)


def _machine(cell: MeasuredCell) -> str:
    """The name of what computed it."""
    machine = cell.record.environment.get("machine", {}) if cell.record else {}
    return str((machine.get("cpu_name") if cell.cell.device in SHARE_ONE_CPU else cell.row["device_name"]) or "")


def _verdict(answers: Sequence[Answer], found: Sequence[Pair]) -> str:
    """Such as `is worth it for mlp; not for cnn: there fp32 with keras is faster`: of the best of each, of any engine.

    A network is named without its mode, or its data, if the same holds for all of its modes, or data.
    """
    said: list[tuple[Answer, str, bool]] = []
    keys = {pair.cell.measured_key for pair in found}
    for answer in answers:
        own = next((cell for cell in answer.group.cells if cell.measured_key in keys), None)
        if own and (best := _outcome(answer, own, found[0].base_value)):
            said.append((answer, *best))
    names: dict[str, list[str]] = {}
    for answer, outcome, _ in said:
        alike = [each for each in said if each[0].model == answer.model]
        of_mode = [each for each in alike if each[0].fastest.cell.mode == answer.fastest.cell.mode]
        name = f"{answer.model} {MODES[answer.fastest.cell.mode]}"
        if len({each[1] for each in of_mode}) > 1:
            name = name.replace(answer.model, answer.name_among([each[0] for each in of_mode]), 1)
            of_mode = [each for each in of_mode if each[0] is answer]
        elif len({each[1] for each in alike}) == 1:
            name, of_mode = answer.model, alike
        names.setdefault(outcome, []).append(name + " !" * any(is_doubtful for *_, is_doubtful in of_mode))
    each_of = {outcome: _joined(list(dict.fromkeys(of_one))) for outcome, of_one in names.items()}
    wins = each_of.pop("", "")
    others = [f"{outcome} for {each_of.pop(outcome)}" for outcome in (*OTHERWISE.values(), BATCH) if outcome in each_of]
    parts = [f"is worth it for {wins}"] if wins else []
    for slower, of_one in each_of.items():
        parts.append(f"{'not' if parts else 'is not worth it'} for {of_one}: {slower}")
    return "; ".join(parts + others)


def _outcome(answer: Answer, own: MeasuredCell, base: str) -> tuple[str, bool] | None:
    """Empty, one of `OTHERWISE`, or what is faster than the precision of `own`; and whether a number is in doubt.

    Of its device alone. None without a cell in `base`.
    """
    here = [each for each in answer.group.cells if each.cell.device == own.cell.device]
    lower, others = ([each for each in here if each.cell.precision == of] for of in (own.cell.precision, base))
    if not others:
        return None
    best = gap(lower[0], others[0])
    fastest = best.first if best.ratio > 1 else best.second
    if any(fastest.cell.batch_size not in {each.cell.batch_size for each in of} for of in (lower, others)):
        return BATCH, best.is_doubtful
    setting = setting_text(fastest, has_devices=False, has_engines=answer.group.has_engines)
    like = {(each.cell.engine, each.cell.options) for each in lower}
    lacks = (fastest.cell.engine, fastest.cell.options) not in like
    slower = f"there {setting} is faster{f', not measured in {own.cell.precision}' * lacks}"
    return (OTHERWISE.get(best.word) or (slower if best.ratio < 1 else "")), best.is_doubtful


def _joined(names: Sequence[str]) -> str:
    more = [f"{len(names) - MAX_NAMED} more"] if len(names) > MAX_NAMED else []
    kept = [*names[:MAX_NAMED], *more]
    return " and ".join(filter(None, [", ".join(kept[:-1]), kept[-1]]))


def _figures(found: Sequence[Pair]) -> str:
    """Such as `With all else equal, it is 1.28 to 3.39 times as fast as fp32 in 5 of 6 pairs, can't tell in 1: ...`."""
    value, base = found[0].value, found[0].base_value
    gaps = [pair.gap for pair in found]
    told = [pair for pair in found if pair.gap.is_told]
    gains = [pair.gap.ratio for pair in told if pair.gap.ratio > 1]
    losses = [1 / pair.gap.ratio for pair in told if pair.gap.ratio <= 1]
    num_same, num_untold = (sum(each.word == word for each in gaps) for word in (Word.same, Word.cant_tell))
    cases = [
        (len(gains), f"it is {_span(gains)} times as fast as {base}"),
        (len(losses), f"{base} is {_span(losses)} times as fast"),
        (num_same, "they are equally fast"),
        (num_untold, "can't tell"),
    ]
    of = f" of {len(found)} pairs"
    parts = []
    for num, text in cases:
        if num:
            parts.append(f"{text} in {_what(found[0]) if len(found) == 1 else f'{num}{of}'}")
            of = ""
    words = Counter(pair.gap.word.value for pair in told)
    about = [f"{num} {word}" if len(found) > 1 else word for word, num in words.items()]
    if num_doubtful := sum(each.is_doubtful for each in gaps):
        about.append(f"{num_doubtful} with a number in doubt !")
    error = max((error for pair in found if (error := pair.cell.number("output_error"))), default=None)
    if differ := output_error_text(Precision(value), error):
        about.append(f"outputs differ by up to {differ.removeprefix('<')}")
    why = "" if bool(gains) == bool(losses) else _why(told, is_slower=bool(losses))
    said = f" ({', '.join(about)})" if about else ""
    return f"With all else equal, {', '.join(parts)}{said}{why}."


def _span(ratios: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(significant(end(ratios)) for end in (min, max))) if ratios else ""


def _what(pair: Pair) -> str:
    """Such as `resnet18 inference with openvino, batch 16`."""
    setting = choice_text(pair.cell, has_engines=True)
    return f"{model_text(pair.cell)} {MODES[pair.cell.cell.mode]} with {setting}, batch {pair.cell.cell.batch_size}"


def _why(told: Sequence[Pair], *, is_slower: bool) -> str:
    """What speaks for and against it, of what holds for all of them: the CPU's units for it, and the probed rates."""
    every = [list(_facts(pair)) for pair in told]
    shared = [fact for fact in every[0] if all(fact in facts for facts in every)]
    because = " and ".join(text for text, is_faster in shared if is_faster != is_slower)
    despite = " and ".join(text for text, is_faster in shared if is_faster == is_slower)
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
    if ceilings is None or ceilings.disturbance(base):
        return
    if (one := ceilings.flops_per_s.get(lower)) and (other := ceilings.ceiling_of(base)):
        prefix, size = ("T", 1e12) if max(one, other) >= TERA else ("G", 1e9)
        unit = f"{prefix}{'OP/s' if value in QUANTIZED else 'FLOP/s'}"
        rates = f"{significant(one / size)} {unit} in {lower} and {significant(other / size)} in {base}"
        yield f"the probe reached {rates}", one > other
