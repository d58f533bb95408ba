import graphlib
import re
import subprocess
import sys
from pathlib import Path

import grimp

import accelbench
from fakes import make_project

PACKAGE = Path(accelbench.__path__[0])
SOURCE = PACKAGE.parent
HEAVY = ("torch", "torch_xla", "torchvision", "pytorch_lightning", "tensorflow", "keras", "jax", "pandas", "matplotlib")
HEAVY += ("mlflow", "dvc")
MAX_FLAT_MODULES = 14


def test_no_files_import_each_other_in_a_circle_and_none_imports_the_whole_package():
    graph = grimp.build_graph("accelbench", exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError, with the circle
    assert [module for module, imported in imports.items() if "accelbench" in imported] == []


def test_the_parent_loads_no_framework(tmp_path):
    code = (
        "import sys; from accelbench.cli import main;"
        "status = main(['plan', 'suite=mnist_networks', 'model=mlp', 'device=cpu']) or main(['doctor', '--all']);"
        f"print([name for name in {HEAVY} if name in sys.modules]); sys.exit(status)"
    )
    project = make_project(tmp_path)
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True)
    assert re.search(r"^\d+ cells: \d+ to run", done.stdout, re.MULTILINE)
    assert done.stdout.splitlines()[-1] == "[]"


def test_init_files_are_empty_and_few_modules_are_outside_of_rooms():
    # The package's own names its interface.
    assert [path for path in SOURCE.rglob("*/*/__init__.py") if path.read_text()] == []
    assert len(list(PACKAGE.glob("*.py"))) <= MAX_FLAT_MODULES
