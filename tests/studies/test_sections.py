"""The studies' parts of the report, what they did otherwise, and what study 000's figures show to a check."""

import html
import re
import sys
from pathlib import Path

from accelbench.report import build, contents
from accelbench.report.extension import load
from accelbench.report.read import read_all
from accelbench.schema.cell import Protocol, Status
from accelbench.schema.measurement import Epoch, Evaluation
from accelbench.settings import params
from five_studies import raw
from five_studies.published import known_errors, known_errors_table
from report.conftest import texts
from study_000 import STUDY_000

EXTENSION = params.report_extension(Path(__file__).resolve().parents[2])


def test_the_checkouts_report_has_the_studies_and_another_has_not(tmp_path, maker):
    suite = "50 % of $x$ & <i>"  # a suite may have any name that a folder may
    tested = Evaluation(num_samples=10_000, seconds=1, loss=0.1, accuracy=0.9)
    epochs = [Epoch(seconds=9, num_samples=60_000, loss=0.2, accuracy=0.8, evaluation=tested)] * 2
    trained = maker.ok(maker.cell(suite=suite, protocol=Protocol.fit), 1000, epochs=epochs)
    for place in ("results", "results/below"):
        maker.suite(tmp_path / place, [trained], study="001")
    sweeps = read_all(tmp_path / "results")
    out = build.build(sweeps, tmp_path / "results", tmp_path / "with", extension=EXTENSION).parent
    without = build.markdown(contents.compose(sweeps), "")
    for title in ("Training time", "How a benchmark lies"):
        assert (title in (out / "index.html").read_text(), title in without) == (True, False)
    for picture in (f"curves_{suite}.png", f"curves_below/{suite}.png"):
        assert (out / "plots" / picture).is_file()
    assert "plots/curves_50%20%25%20of%20%24x%24%20%26%20%3Ci%3E.png" in (out / "report.md").read_text()
    assert str(EXTENSION.parents[1]) not in sys.path[:1]


def test_a_study_of_which_nothing_was_measured_keeps_its_section_with_its_numbers_and_why(tmp_path, maker):
    cell = maker.cell("pets_cnn", "gpu", suite="pets", batch_size=32)
    maker.suite(tmp_path, [maker.record(cell, Status.skipped, reason="no NVIDIA driver (NVML)")], study="002")
    maker.suite(tmp_path, [maker.ok(maker.cell(), 1000)], study="001")
    found = contents.compose(read_all(tmp_path), extension=load(EXTENSION))
    added = {section.sweep.study: section.added for section in found.sections}
    assert set(added) == {"000", "001", "002", "003", "004"}
    assert added["002"].sentence.endswith("Not measured here, because no NVIDIA driver (1 cell).")
    assert added["003"].sentence.endswith("Not measured here, because no suite in this report repeats it.")
    assert "Not measured here" not in added["001"].sentence
    rows = {(row["network"], row["device"], row["published"]) for row in texts(added["002"].main)}
    assert {("pets_cnn", "gpu", "454.0"), ("pets_cnn", "tpu", "94.0")} < rows
    assert "| scaling_cnn_small | cpu | fp32 | 8 | latency | 36.71 |" in build.markdown(found, "")


def test_a_report_is_built_without_an_extension_that_cannot_be_used(tmp_path, maker):
    extension = tmp_path / "mine.py"
    maker.suite(tmp_path / "results", [maker.ok(maker.cell(), 1000)])
    given = read_all(tmp_path / "results"), tmp_path / "results", tmp_path / "report"
    texts = {None: "no such file", "import nonesuch": "No module named 'nonesuch'"}
    for text, why in {**texts, "": "has no attribute 'headline'"}.items():  # "": of an older release
        if text is not None:
            extension.write_text(text)
        page = build.build(*given, say=(said := []).append, extension=extension)
        (line,) = said
        assert line.startswith(f"params.yaml: report_extension: {extension}: ")
        assert line.endswith(why)
        assert why in html.unescape(page.read_text())


ROOT = Path(__file__).resolve().parents[2]
# FLOP/s of an A100 as its maker states them; fp32 as TF32, fp64 on the tensor cores.
A100 = {"float16": 312e12, "bfloat16": 312e12, "float32": 156e12, "float64": 19.5e12}


def implausibilities(run, compute_ms, communication_ms):
    """Why a published time per sample on an A100 can't be true, as reasons. A multiply-add is two operations."""
    _, giga_macs = STUDY_000.get(run.model) or STUDY_000[f"legacy_{run.model}"]  # of an image of 224 x 224
    rate, peak = 2e12 * giga_macs / compute_ms, A100[run.precision]
    reasons = []
    if rate > peak:
        reasons.append(f"{rate / 1e12:,.4g} TFLOP/s on a card with a peak of {peak / 1e12:,.4g}")
    if communication_ms > 0.9 * (compute_ms + communication_ms):  # it includes the wait for the computation
        reasons.append("communication")
    return reasons


def test_in_the_raw_data_those_rows_are_flagged_that_no_device_can_reach():
    runs = [run for run in raw.runs() if run.machine == raw.A100]
    flagged = list(filter(None, (implausibilities(run, run.launch_ms, run.copying_ms) for run in runs)))
    (shown,) = [error for error in known_errors() if "plausibility" in error.how]
    assert f"{len(flagged)} of the {len(runs)} rows of its GPU" in shown.seen
    (peak,) = re.findall(r"[\d,]+ TFLOP/s on a card with a peak of 312", shown.done)
    assert any(peak in reasons for reasons in flagged)
    assert not any(implausibilities(run, run.total_ms, 0.0) for run in runs)  # their totals are possible


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
