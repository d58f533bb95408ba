import shutil
from pathlib import Path

import grimp
import pytest

from accelbench.grid.fingerprint import code_digest, measuring_files
from accelbench.project import PACKAGE
from accelbench.schema.cell import Engine


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


# What a cell's process imports, too, but no number depends on: messages, texts, names and places of files, and how
# values are declared, written and read.
NOT_MEASURING = {
    *("errors", "project"),
    *(f"schema.{name}" for name in ("ceilings", "record", "secrets", "serialize", "setting", "text")),
}


@pytest.fixture(scope="module")
def imports():
    return grimp.build_graph("accelbench", exclude_type_checking_imports=True, cache_dir=None)


@pytest.mark.parametrize("engine", Engine)
def test_it_has_code_of_all_that_a_cells_process_imports(imports, engine):
    started = {f"accelbench.isolation.{name}" for name in ("hosts", "supervisor", "child")}
    started |= {name for name in imports.modules if name.startswith(f"accelbench.engines.{engine}.")}
    imported = started | {upstream for module in started for upstream in imports.find_upstream_modules(module)}
    paths = {PACKAGE / f"{name.partition('.')[2].replace('.', '/')}.py" for name in imported}
    others = {path for path in paths if path.is_file()} - set(measuring_files(PACKAGE, engine))
    assert {str(path.relative_to(PACKAGE).with_suffix("")).replace("/", ".") for path in others} <= NOT_MEASURING
