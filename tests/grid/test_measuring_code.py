import re
import shutil
from pathlib import Path

import grimp
import pytest

from accelbench.grid import measuring_code
from accelbench.grid.measuring_code import NOT_MEASURING, code_digest
from accelbench.project import PACKAGE
from accelbench.schema.vocab import Engine

FILES = {
    "engines/one/spec.py": "from accelbench.schema import cell\n\ndef name():\n    return cell.name()\n",
    "measuring/clock.py": """
'''The clock.'''
import time
from accelbench.stats.means import mean as average
from accelbench.schema.vocab import Word

LIMIT = 3

def wait(num: int = LIMIT) -> float:
    '''Waits.'''
    return average([time.monotonic()] * num)  # seconds

class Clock:
    def read(self):
        return wait()
""",
    "schema/cell.py": """
from accelbench.schema.setting import setting

SIZE = setting(3, "how many")

def name():
    return f'cell{SIZE}'

def unused():
    return 1
""",
    "schema/setting.py": "def setting(default, help):\n    return default\n",
    "schema/vocab.py": "class Word:\n    pass\n",
    "stats/means.py": "def mean(values):\n    return sum(values) / len(values)\n\ndef other(values):\n    return 0\n",
    "report/build.py": "def build():\n    return 1\n",
}


@pytest.fixture
def small(tmp_path):
    """A package with one engine."""
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
    ("measuring/clock.py", "class Clock:", "class Clock(int):"),
    ("measuring/clock.py", "LIMIT = 3", "LIMIT = 3\nstart()"),
    ("measuring/clock.py", "    return average", "    import torch\n    return average"),
    ("stats/means.py", "/ len(values)", "/ (len(values) - 1)"),
    ("schema/cell.py", "'cell", "'sell"),
    ("schema/cell.py", "setting(3", "setting(4"),
    ("engines/one/spec.py", "cell.name()", "cell.unused()"),
]
NO_CHANGES = [
    ("measuring/clock.py", "Waits.", "Waits a while."),
    ("measuring/clock.py", "# seconds", "# in seconds"),
    ("measuring/clock.py", "'''The clock.'''", ""),
    ("measuring/clock.py", "mean as average", "mean as average, other"),
    ("measuring/clock.py", "average", "the_mean"),
    ("measuring/clock.py", "import time", "import time\nimport os"),
    ("schema/cell.py", "return 1", "return 2"),  # no cell uses it
    ("schema/cell.py", "how many", "the number"),
    ("schema/vocab.py", "pass", "new = 1"),
    ("report/build.py", "return 1", "return 2"),
]


@pytest.mark.parametrize(
    ("name", "old", "new", "changes"),
    [*((*each, True) for each in CHANGES), *((*each, False) for each in NO_CHANGES)],
)
def test_what_changes_the_digest_and_comments_texts_aliases_and_what_measures_nothing(small, name, old, new, changes):
    before = code_digest(small)
    edit(small, name, old, new)
    assert (code_digest(small) != before) == changes


def test_a_renamed_file_keeps_the_digest(small):
    before = code_digest(small)
    (small / "measuring/clock.py").rename(small / "measuring/timer.py")
    (small / "stats/means.py").rename(small / "averages.py")
    edit(small, "measuring/timer.py", "accelbench.stats.means", "accelbench.averages")
    (small / "schema/cell.py").rename(small / "schema/square.py")
    edit(small, "engines/one/spec.py", "import cell", "import square")
    edit(small, "engines/one/spec.py", "cell.name()", "square.name()")
    assert code_digest(small) == before


def test_a_moved_definition_keeps_the_digest(small):
    before = code_digest(small)
    moved = "def mean(values):\n    return sum(values) / len(values)\n"
    edit(small, "stats/means.py", moved, "")
    edit(small, "report/build.py", "def build", f"{moved}\ndef build")
    edit(small, "measuring/clock.py", "accelbench.stats.means", "accelbench.report.build")
    assert code_digest(small) == before
    edit(small, "report/build.py", moved, "")
    edit(small, "measuring/clock.py", "from accelbench.report.build import mean as average\n", moved)
    edit(small, "measuring/clock.py", "average", "mean")
    assert code_digest(small) == before


def test_of_two_definitions_of_one_name_it_counts_which_is_used(small):
    for name, num in (("first", 1), ("second", 2)):
        (small / f"measuring/{name}.py").write_text(f"def start():\n    return {num}\n")
    edit(small, "measuring/clock.py", "import time", "import time\nfrom accelbench.measuring.first import start")
    edit(small, "measuring/clock.py", "return wait()", "return start()")
    before = code_digest(small)
    edit(small, "measuring/clock.py", "measuring.first", "measuring.second")
    assert code_digest(small) != before


def test_a_local_name_is_not_the_definition_of_that_name(small):
    edit(small, "measuring/clock.py", "LIMIT = 3", "LIMIT = 3\n\ndef apply(unused):\n    return unused\n")
    edit(small, "measuring/clock.py", "import time", "import time\nfrom accelbench.schema.cell import unused")
    before = code_digest(small)
    edit(small, "schema/cell.py", "return 1", "return 2")
    assert code_digest(small) == before


def test_a_folder_without_the_package_has_no_digest(tmp_path):
    with pytest.raises(FileNotFoundError, match="not the folder"):
        code_digest(tmp_path)


# accelbench's own code.


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package."""
    folder = tmp_path_factory.mktemp("package") / "accelbench"
    return Path(shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pyc*")))


ENGINES = (Engine.lightning, Engine.keras, Engine.openvino)


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
        (["engines/lightning/new.py"], {Engine.lightning, Engine.openvino}),
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


def test_every_file_of_a_room_may_be_renamed(package, before):
    """Those of stats/, which every engine uses."""
    for path in sorted((package / "stats").glob("[a-z]*.py")):
        new = f"renamed_{path.stem}"
        path.rename(path.with_stem(new))
        for other in package.rglob("*.py"):
            text = other.read_text()
            changed = re.sub(rf"accelbench\.stats(\.| import ){path.stem}\b", rf"accelbench.stats\1{new}", text)
            if changed != text:
                other.write_text(re.sub(rf"(?<![\w.]){path.stem}\.(?=\w)", f"{new}.", changed))
    assert digests(package) == before


@pytest.mark.parametrize("entry", [*measuring_code.ENTRIES, *NOT_MEASURING])
def test_the_listed_modules_are_there(entry):
    path = PACKAGE / entry.replace(".", "/")
    assert path.is_dir() or path.with_suffix(".py").is_file()


@pytest.fixture(scope="module")
def imports():
    return grimp.build_graph("accelbench", exclude_type_checking_imports=True, cache_dir=None)


@pytest.mark.parametrize("engine", Engine)
def test_it_has_code_of_all_that_a_cells_process_imports(imports, engine):
    started = {f"accelbench.isolation.{name}" for name in ("hosts", "host", "child")}
    started |= {name for name in imports.modules if name.startswith(f"accelbench.engines.{engine}.")}
    imported = started | {upstream for module in started for upstream in imports.find_upstream_modules(module)}
    names = {name.partition(".")[2] for name in imported}
    files = {name for name in names if (PACKAGE / f"{name.replace('.', '/')}.py").is_file()}
    assert files - {module for module, _ in measuring_code.measuring_code(PACKAGE, engine)} <= set(NOT_MEASURING)
