import shutil
from pathlib import Path

import grimp
import pytest

from accelbench.grid.fingerprint import code_digest, measuring_files
from accelbench.project import PACKAGE
from accelbench.schema.vocab import Engine

FILES = {
    "measuring/clock.py": """
'''The clock.'''
import time
from accelbench.stats import means
from accelbench.stats.means import mean as average

LIMIT = 3

def wait(num: int = LIMIT) -> float:
    '''Waits.'''
    return average([time.monotonic()] * num)  # seconds

class Clock:
    def read(self):
        return means.mean(wait())
""",
    "stats/means.py": "def mean(values):\n    return sum(values) / len(values)\n",
    "report/build.py": "def build():\n    return 1\n",
}


@pytest.fixture
def small(tmp_path):
    """A package."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def edit(package, name, old, new):
    text = (package / name).read_text()
    assert old in text
    (package / name).write_text(text.replace(old, new))


CHANGES = [
    ("measuring/clock.py", "LIMIT = 3", "LIMIT = 4"),
    ("measuring/clock.py", "* num)", "* num * 2)"),
    ("measuring/clock.py", "import time", "import clocks as time"),
    ("measuring/clock.py", "means import mean as", "means import other as"),
    ("measuring/clock.py", "means.mean(", "means.other("),
    ("measuring/clock.py", "class Clock:", "class Clock(int):"),
    ("measuring/clock.py", "LIMIT = 3", "LIMIT = 3\nstart()"),
    ("measuring/clock.py", "    return average", "    import torch\n    return average"),
    ("stats/means.py", "/ len(values)", "/ (len(values) - 1)"),
]
NO_CHANGES = [
    ("measuring/clock.py", "Waits.", "Waits a while."),
    ("measuring/clock.py", "# seconds", "# in seconds"),
    ("measuring/clock.py", "'''The clock.'''", ""),
    ("report/build.py", "return 1", "return 2"),
]


@pytest.mark.parametrize(
    ("name", "old", "new", "changes"),
    [*((*each, True) for each in CHANGES), *((*each, False) for each in NO_CHANGES)],
)
def test_what_changes_the_digest_and_comments_docstrings_and_what_measures_nothing(small, name, old, new, changes):
    before = code_digest(small)
    edit(small, name, old, new)
    assert (code_digest(small) != before) == changes


# accelbench's own code.


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package."""
    folder = tmp_path_factory.mktemp("package") / "accelbench"
    return Path(shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pyc*")))


ENGINES = (Engine.pytorch, Engine.keras, Engine.openvino)


def digests(package):
    return {engine: code_digest(package, engine) for engine in ENGINES}


@pytest.fixture(scope="module")
def before(package):
    found = digests(package)
    assert found == digests(PACKAGE)  # the digest of a copy is the same
    return found


@pytest.mark.parametrize(
    ("names", "engines"),
    [
        (["measuring/new.py"], set(ENGINES)),
        (["isolation/new.py"], set(ENGINES)),
        (["devices/new.py"], set(ENGINES)),
        (["engines/new.py"], set(ENGINES)),
        (["engines/pytorch/deep/new.py"], {Engine.pytorch, Engine.openvino}),
        (["engines/keras/new.py"], {Engine.keras}),
        (["engines/other/new.py", "sweep/new.py", "report/new.py"], set()),
    ],
)
def test_new_code_measures_the_cells_again_that_it_can_concern(package, before, names, engines):
    for name in names:
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_text("NEW = 1\n")
    after = digests(package)
    for name in names:
        (package / name).unlink()
    assert {engine for engine in ENGINES if after[engine] != before[engine]} == engines


# What a cell's process imports, too, but no number depends on: messages, texts, names and places of files, the ranges
# and words of settings (those that a cell has are part of its identity), and how values are written and read.
NOT_MEASURING = {
    *("errors", "project"),
    *(f"schema.{name}" for name in ("ceilings", "interpreters", "parallel", "ranges", "record")),
    *(f"schema.{name}" for name in ("secrets", "serialize", "setting", "text", "vocab")),
}


@pytest.fixture(scope="module")
def imports():
    return grimp.build_graph("accelbench", exclude_type_checking_imports=True, cache_dir=None)


@pytest.mark.parametrize("engine", Engine)
def test_it_has_code_of_all_that_a_cells_process_imports(imports, engine):
    started = {f"accelbench.isolation.{name}" for name in ("hosts", "host_process", "child")}
    started |= {name for name in imports.modules if name.startswith(f"accelbench.engines.{engine}.")}
    imported = started | {upstream for module in started for upstream in imports.find_upstream_modules(module)}
    paths = {PACKAGE / f"{name.partition('.')[2].replace('.', '/')}.py" for name in imported}
    others = {path for path in paths if path.is_file()} - set(measuring_files(PACKAGE, engine))
    assert {str(path.relative_to(PACKAGE).with_suffix("")).replace("/", ".") for path in others} <= NOT_MEASURING
