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

ROOT = Path(__file__).resolve().parents[2]


def test_the_checkouts_report_has_the_studies_and_another_has_not(tmp_path, maker):
    suite = "50 % of $x$ & <i>"  # a suite may have any name that a folder may
    tested = Evaluation(num_samples=10_000, seconds=1, loss=0.1, accuracy=0.9)
    epochs = [Epoch(seconds=9, num_samples=60_000, loss=0.2, accuracy=0.8, evaluation=tested)] * 2
    trained = maker.ok(maker.cell(suite=suite, protocol=Protocol.fit), 1000, epochs=epochs)
    for place in ("results", "results/below"):
        maker.suite(tmp_path / place, [trained], study="001")
    named = params.report_extension(ROOT)
    out = build.build(read_all(tmp_path / "results"), tmp_path / "results", tmp_path / "with", extension=named).parent
    without = contents.compose(read_all(tmp_path / "results"))
    report = (out / "report.md").read_text()
    for title in ("Training time", "How a benchmark lies"):
        assert title in (out / "index.html").read_text()
        assert title not in build.markdown(without, "")
    assert (out / "plots" / f"curves_{suite}.png").is_file()
    assert (out / "plots" / "curves_below" / f"{suite}.png").is_file()
    assert "plots/curves_50%20%25%20of%20%24x%24%20%26%20%3Ci%3E.png" in report
    assert str(named.parents[1]) not in sys.path[:1]


def test_a_study_of_which_nothing_was_measured_keeps_its_section_with_its_numbers_and_why(tmp_path, maker):
    cell = maker.cell("pets_cnn", "gpu", suite="pets", batch_size=32)
    skipped = maker.record(cell, Status.skipped, reason="no NVIDIA driver (NVML)")
    maker.suite(tmp_path / "results", [skipped], study="002")
    maker.suite(tmp_path / "results", [maker.ok(maker.cell(), 1000)], study="001")
    found = contents.compose(read_all(tmp_path / "results"), extension=load(params.report_extension(ROOT)))
    added = {section.sweep.study: section.added for section in found.sections}
    assert set(added) == {"000", "001", "002", "003", "004"}
    assert added["002"].sentence.endswith("Not measured here, because no NVIDIA driver (1 cell).")
    assert added["003"].sentence.endswith("Not measured here, because no suite in this report repeats it.")
    rows = {(row["network"], row["device"], row["published"]) for row in texts(added["002"].main)}
    assert {("pets_cnn", "gpu", "454.0"), ("pets_cnn", "tpu", "94.0")} < rows
    assert "Not measured here" not in added["001"].sentence
    shown = build.markdown(found, "")
    assert "| scaling_cnn_small | cpu | fp32 | 8 | latency | 36.71 |" in shown


UNUSABLE = {"none": "no such file", "broken": "No module named 'nonesuch'", "older": "has no attribute 'headline'"}


@pytest.mark.parametrize(("name", "why"), [(f"{name}.py", why) for name, why in UNUSABLE.items()])
def test_a_report_is_built_without_an_extension_that_cannot_be_used(tmp_path, maker, name, why):
    (tmp_path / "broken.py").write_text("import nonesuch")
    (tmp_path / "older.py").touch()
    maker.suite(tmp_path / "results", [maker.ok(maker.cell(), 1000)])
    said = []
    page = build.build(
        read_all(tmp_path / "results"),
        tmp_path / "results",
        tmp_path / "report",
        say=said.append,
        extension=tmp_path / name,
    )
    assert [line.startswith(f"params.yaml: report_extension: {tmp_path / name}: ") for line in said] == [True]
    assert said[0].endswith(why)
    assert why in html.unescape(page.read_text())
