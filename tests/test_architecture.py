import graphlib
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

import accelbench
from fakes import make_project

PACKAGE = Path(accelbench.__path__[0])
HEAVY = ("torch", "torch_xla", "torchvision", "pytorch_lightning", "tensorflow", "keras", "jax", "pandas", "matplotlib")
HEAVY += ("mlflow", "dvc")
ROOMS = ("engines", "measuring", "isolation", "sweep", "grid", "report", "pipeline")
MAX_FLAT_MODULES = 14
COMMANDS = """from accelbench.cli import main
assert main(['plan', 'suite=mnist_networks', 'model=mlp', 'device=cpu']) == main(['doctor', '--all']) == 0"""


def test_no_files_import_each_other_in_a_circle_and_none_imports_the_whole_package():
    graph = grimp.build_graph("accelbench", exclude_type_checking_imports=True, cache_dir=None)
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
    ids=[
        "the parent loads no framework",
        "descriptions of hosts load none",
        "a stage that prepares loads nothing that measures",
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
