"""DVC's page of plots: from a file with only what is plotted, in chromium, without evaluating any text."""

import csv
from pathlib import Path

import pytest

from accelbench.report import build, dvc_plots
from accelbench.report.read import read_all
from accelbench.schema.vocab import Mode, Status

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / ".dvc" / "plots"
WICKED = "</script><script>document.title = 1</script>&amp;"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, maker) -> Path:
    """The folder of a report on three cells, one of a network with a wicked name."""
    root = tmp_path_factory.mktemp("written")
    cells = [maker.cell(), maker.cell(batch_size=256), maker.cell(threads=1), maker.cell(WICKED)]
    cells += [maker.cell("alone", mode=Mode.infer), maker.cell("skipped", mode=Mode.infer)]
    records = [maker.ok(cell, 1000) for cell in cells[:-1]]
    maker.suite(root / "results", [*records, maker.record(cells[-1], Status.skipped)])
    folder = build.build(read_all(root / "results"), root / "results", root / "report").parent
    dvc_plots.write(folder)
    return folder


def test_the_plotted_file_has_what_the_template_names_and_nothing_that_ends_a_script(written: Path) -> None:
    text = (written / "throughput.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["model"] for row in rows[:3]] == ["mlp", "mlp", "mlp"]
    assert [row["options"] for row in rows] == ["", "", "asked_threads=1", ""]  # else two would look the same
    assert len(rows) == 4  # without the one that would be alone in its panel
    assert float(rows[0]["samples_per_s"]) == pytest.approx(1000)
    template = (TEMPLATES / "throughput.json").read_text()
    assert {name for name in rows[0] if name not in template} == set()
    assert not set("<>&") & set(text)
    assert list((written / "plots").iterdir()) != []  # DVC warns of an empty folder
