import html
import sys
from pathlib import Path

import pytest

from accelbench.report import build, contents
from accelbench.report.extension import load
from accelbench.report.read import read_all
from accelbench.schema.cell import Protocol, Status
from accelbench.schema.measurement import Epoch, Evaluation
from accelbench.settings import params
from report.rows import texts

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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "no such file"),
        ("import nonesuch", "No module named 'nonesuch'"),
        ("", "has no attribute 'headline'"),  # of an older release
    ],
)
def test_a_report_is_built_without_an_extension_that_cannot_be_used(tmp_path, maker, text, why):
    extension, said = tmp_path / "mine.py", []
    if text is not None:
        extension.write_text(text)
    maker.suite(tmp_path / "results", [maker.ok(maker.cell(), 1000)])
    given = read_all(tmp_path / "results"), tmp_path / "results", tmp_path / "report"
    page = build.build(*given, say=said.append, extension=extension)
    (line,) = said
    assert line.startswith(f"params.yaml: report_extension: {extension}: ")
    assert line.endswith(why)
    assert why in html.unescape(page.read_text())
