"""What the studies did that accelbench does otherwise, and what study 000's figures show to a plausibility check."""

import re
from pathlib import Path

from five_studies import raw
from five_studies.published import known_errors, known_errors_table
from study_000 import STUDY_000

ROOT = Path(__file__).resolve().parents[2]
# Multiply-adds of an image of 224 x 224 in 1e9, by study 000's names.
GIGA_MACS = {name.removeprefix("legacy_"): giga_macs for name, (_, giga_macs) in STUDY_000.items()}
# FLOP/s as the makers state them; an A100's fp32 as TF32, its fp64 on the tensor cores.
A100 = {"float16": 312e12, "bfloat16": 312e12, "float32": 156e12, "float64": 19.5e12}
I7_8750H = {"float32": 749e9, "float64": 374e9}  # 6 cores, 3.9 GHz, two AVX2 units
# Above this share of a step, the reported communication includes the wait for the computation.
MAX_COMMUNICATION_SHARE = 0.9


def implausibilities(run, compute_ms, communication_ms, peak_flops_per_s):
    """Why a published time per sample can't be true, as reasons. A multiply-add is two operations."""
    rate, share = 2e12 * GIGA_MACS[run.model] / compute_ms, communication_ms / (compute_ms + communication_ms)
    peak = f"{rate / 1e12:,.4g} TFLOP/s on a card with a peak of {peak_flops_per_s / 1e12:,.4g}"
    return [peak] * (rate > peak_flops_per_s) + ["communication"] * (share > MAX_COMMUNICATION_SHARE)


def judged(machine, peaks):
    """Each of the machine's runs with what is implausible about it."""
    runs = [run for run in raw.runs() if run.machine == machine]
    return [(run, implausibilities(run, run.launch_ms, run.copying_ms, peaks[run.precision])) for run in runs]


def test_in_the_raw_data_those_rows_are_flagged_that_no_device_can_reach():
    found = judged(raw.A100, A100)
    flagged = [(run, reasons) for run, reasons in found if reasons]
    models = {run.model for run, reasons in flagged if any("peak" in reason for reason in reasons)}
    assert models >= {"vgg11", "vgg13", "vgg16", "vgg19", "resnet152"}
    assert not [model for model in models if model.startswith(("mobilenet", "efficientnet_b0"))]
    for run, _ in found:  # their totals are possible
        assert not implausibilities(run, run.total_ms, 0.0, A100[run.precision])
    (shown,) = [error for error in known_errors() if "plausibility" in error.how]
    assert f"{len(flagged)} of the {len(found)} rows of its GPU" in shown.seen
    (peak,) = re.findall(r"[\d,]+ TFLOP/s on a card with a peak of 312", shown.done)
    assert any(peak in reasons for _, reasons in flagged)
    of_tpu = [reasons for _, reasons in judged(raw.TPU_V2, dict.fromkeys(A100, 45e12))]
    assert sum("communication" in reasons for reasons in of_tpu) > len(of_tpu) / 2
    assert not any(reasons for _, reasons in judged(raw.I7, I7_8750H))  # a laptop's CPU is believed


def test_each_names_a_test_that_there_is_and_the_docs_hold_the_same_errors():
    for error in known_errors():
        path, _, name = error.test.partition("::")
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE), error.test
    text = (ROOT / "docs/studies.md").read_text().partition("## How a benchmark lies\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [("study", "what was done", "here")]
    for cells in known_errors_table().rows:
        study, done, _, here, how, _ = [cell.text for cell in cells]
        rows.append((study.partition(",")[0], done, f"{here.capitalize()}. {how}"))
    assert lines == ["| " + " | ".join(row) + " |" for row in rows]
