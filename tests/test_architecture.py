import graphlib
import subprocess
import sys

import grimp
import pytest

from accelbench.grid.fingerprint import measuring_files
from accelbench.project import PACKAGE
from accelbench.schema.cell import Engine
from fakes import make_project

HEAVY = ("torch", "torch_xla", "torchvision", "pytorch_lightning", "tensorflow", "keras", "jax", "pandas", "matplotlib")
HEAVY += ("mlflow", "dvc")
ROOMS = ("engines", "measuring", "isolation", "sweep", "grid", "report", "pipeline")
MAX_FLAT_MODULES = 14
COMMANDS = """from accelbench.cli import main
assert main(['plan', 'suite=mnist_networks', 'model=mlp', 'device=cpu']) == main(['doctor', '--all']) == 0"""


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("accelbench", exclude_type_checking_imports=True, cache_dir=None)


def test_no_files_import_each_other_in_a_circle_and_none_imports_the_whole_package(graph):
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError, with the circle
    assert [module for module, imported in imports.items() if "accelbench" in imported] == []


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        (COMMANDS, HEAVY),
        ("import accelbench.engines.registry", [*HEAVY, "numpy"]),
        ("import accelbench.stages", [*HEAVY, *(f"accelbench.{room}" for room in ROOMS)]),
    ],
)
def test_what_is_not_needed_is_not_loaded(tmp_path, code, absent):
    command = [sys.executable, "-c", f"import sys\n{code}\nprint('loaded:', *sys.modules)"]
    done = subprocess.run(command, cwd=make_project(tmp_path), capture_output=True, text=True, check=True)
    assert not {*absent} & {*done.stdout.rpartition("loaded:")[2].split()}


def test_init_files_are_empty_and_few_modules_are_outside_of_rooms():
    # The package's own names its interface.
    assert [path for path in PACKAGE.parent.rglob("*/*/__init__.py") if path.read_text()] == []
    assert len(list(PACKAGE.glob("*.py"))) <= MAX_FLAT_MODULES


# What a cell's process imports, too, but no number depends on: messages, texts, names and places of files, and how
# values are declared, written and read.
NOT_MEASURING = {
    *("errors", "project"),
    *(f"schema.{name}" for name in ("ceilings", "record", "secrets", "serialize", "setting", "text")),
}


@pytest.mark.parametrize("engine", Engine)
def test_the_digest_has_code_of_all_that_a_cells_process_imports(graph, engine):
    started = {f"accelbench.isolation.{name}" for name in ("hosts", "supervisor", "child")}
    started |= {name for name in graph.modules if name.startswith(f"accelbench.engines.{engine}.")}
    imported = started | {upstream for module in started for upstream in graph.find_upstream_modules(module)}
    paths = {PACKAGE / f"{name.partition('.')[2].replace('.', '/')}.py" for name in imported}
    others = {path for path in paths if path.is_file()} - set(measuring_files(PACKAGE, engine))
    assert {str(path.relative_to(PACKAGE).with_suffix("")).replace("/", ".") for path in others} <= NOT_MEASURING
