"""Numbers and names that README.md and docs/ state are those of the code and of params.yaml."""

import importlib.util
import re
from pathlib import Path

import pytest

from accelbench.compare.sureness import LIKELY_RATIO, MARGIN, MIN_PROCESSES, Word
from accelbench.judging.row import summarise
from accelbench.schema.text import clean
from accelbench.schema.vocab import Status
from accelbench.settings import params
from accelbench.sinks.mlflow_fields import MAX_POINTS
from accelbench.stats.order_statistics import Sample
from report.conftest import Maker

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = [*summarise(Maker().ok(Maker().cell(), 1000)), "cell", "num_processes", "scaling_efficiency"]
SPEC = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "pages.py")
STATED = [
    ("comparing", "fewer than five processes on a side", MIN_PROCESSES == 5),
    ("comparing", f"lies within {MARGIN:.0%}".replace("%", " %"), True),
    ("mlflow", f"thinned to {MAX_POINTS} points", True),
    ("reading-the-report", f"such as `{clean(chr(27))}`", True),
    ("reading-the-report", f"{LIKELY_RATIO:g} times", True),
    *(("reading-the-report", f"- `{word}`", True) for word in Word),
]


@pytest.mark.parametrize("name", ["columns.md", "settings.md"])
def test_a_made_page_is_what_the_code_makes(name: str) -> None:
    pages = importlib.util.module_from_spec(SPEC)
    SPEC.loader.exec_module(pages)
    assert (ROOT / "docs" / name).read_text() == pages.pages()[name], "run: python docs/pages.py"


@pytest.mark.parametrize(("name", "sentence", "holds"), STATED)
def test_a_page_states_what_the_code_does(name: str, sentence: str, holds: bool) -> None:
    assert sentence in text_of(f"docs/{name}.md")
    assert holds


def test_every_column_is_explained_once_and_those_that_the_pages_name_exist() -> None:
    explained = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/columns.md").read_text(), re.MULTILINE)
    assert sorted(explained) == sorted(COLUMNS)
    text = "".join(path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    named = set(re.findall(r"`(\w+_(?:ms|mb|per_sample|per_s|share|shares|provenance))`", text))
    assert len(named) > 5
    assert named <= {*COLUMNS, "counts"}


def text_of(name: str) -> str:
    """A page, with its lines joined where a sentence goes on."""
    return " ".join((ROOT / name).read_text().split())


def test_the_pages_name_every_status() -> None:
    pattern = r"gets a `skipped` record with the reason[.;] (?:Every|any) other(?: cell)? ends as ([^.(]*)"
    for page_name in ("README.md", "docs/sweeps.md"):
        (sentence,) = re.findall(pattern, text_of(page_name))
        assert {*re.findall(r"`(\w+)`", sentence), "skipped"} == set(Status)


def test_the_page_of_the_studies_lists_every_suite() -> None:
    table = (ROOT / "docs/studies.md").read_text().partition("| study | what it measured | suite |")[2]
    rows = table.partition("\n\n")[0].splitlines()
    listed = {name for line in rows for name in re.findall(r"`(\w+)`", line.rpartition(" | ")[2])}
    assert listed == set(params.load(ROOT).suites)


@pytest.mark.parametrize(("percent", "num"), [(90, 64), (99, 662)])
def test_percentiles_are_shown_from_the_number_of_samples_that_the_page_states(percent: int, num: int) -> None:
    assert re.search(rf"p{percent} (is shown )?from {num}\b", text_of("docs/measuring.md"))
    assert Sample([1.0] * num).supported_percentile(percent) is not None
    assert Sample([1.0] * (num - 1)).supported_percentile(percent) is None
