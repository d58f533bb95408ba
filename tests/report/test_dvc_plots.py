"""DVC's page of plots: from a file with only what is plotted, in chromium, without evaluating any text."""

import csv
from pathlib import Path

import pytest

from accelbench.report import dvc_plots
from accelbench.schema.cell import Mode, Status

TEMPLATE = Path(__file__).resolve().parents[2] / ".dvc" / "plots" / "throughput.json"
WICKED = "</script><script>document.title = 1</script>&amp;"


def test_the_plotted_file_has_what_the_template_names_and_nothing_that_ends_a_script(tmp_path: Path, maker) -> None:
    cells = [maker.cell(), maker.cell(batch_size=256), maker.cell(threads=1), maker.cell(WICKED)]
    cells.append(maker.cell("alone", mode=Mode.infer))
    skipped = maker.record(maker.cell("skipped", mode=Mode.infer), Status.skipped)
    folder = maker.report(tmp_path, *(maker.ok(cell, 1000) for cell in cells), skipped)
    dvc_plots.write(folder)
    text = (folder / "throughput.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["model"] for row in rows[:3]] == ["mlp", "mlp", "mlp"]
    assert [row["options"] for row in rows] == ["", "", "asked_threads=1", ""]  # else two would look the same
    assert len(rows) == 4  # without the one that would be alone in its panel
    assert float(rows[0]["samples_per_s"]) == pytest.approx(1000)
    template = TEMPLATE.read_text()
    assert {name for name in rows[0] if name not in template} == set()
    assert not set("<>&") & set(text)
    assert list((folder / "plots").iterdir()) != []  # DVC warns of an empty folder
