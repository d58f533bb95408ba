import ast
import graphlib
import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

import accelbench
from fakes import give_ceilings, make_project
from marks import slow

PACKAGE = Path(accelbench.__path__[0])
SOURCE = PACKAGE.parent
HEAVY = ("torch", "torch_xla", "torchvision", "pytorch_lightning", "tensorflow", "keras", "jax", "pandas", "matplotlib")
HEAVY += ("mlflow", "dvc")
MAX_LINES = 450
MAX_FUNCTION_LINES = 50
MAX_FLAT_MODULES = 9


def test_no_files_import_each_other_in_a_circle_and_none_imports_the_whole_package():
    graph = grimp.build_graph("accelbench", exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError, with the circle
    assert [module for module, imported in imports.items() if "accelbench" in imported] == []


# What counts the work of networks starts a host of PyTorch, which takes seconds.
@pytest.mark.parametrize("patch", ["forecast.complete = lambda *_: None;", slow("")])
def test_the_parent_loads_no_framework(tmp_path, patch):
    code = (
        f"import sys; from accelbench.cli import main; from accelbench.sweep import forecast; {patch}"
        "status = main(['plan', 'suite=mnist_networks', 'model=mlp', 'device=cpu']) or main(['doctor', '--all']);"
        f"print([name for name in {HEAVY} if name in sys.modules]); sys.exit(status)"
    )
    project = make_project(tmp_path)
    give_ceilings(project)
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True)
    counted = r"" if patch else r", about \d+ s; "
    assert re.match(rf"\d+ cells: \d+ to run{counted}", done.stdout)
    assert done.stdout.splitlines()[-1] == "[]"


def test_files_and_functions_are_short_init_files_empty_and_few_modules_outside_of_rooms():
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        if len(text.splitlines()) > MAX_LINES:
            found.append(f"{path}: more than {MAX_LINES} lines")
        if path.name == "__init__.py" and path.parent != PACKAGE and text:  # the package's own names its interface
            found.append(f"{path}: not empty")
        functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
        long = [node for node in functions if node.end_lineno - node.lineno >= MAX_FUNCTION_LINES]
        found += [f"{path}: {node.name} has more than {MAX_FUNCTION_LINES} lines" for node in long]
    assert found == []
    assert len(list(PACKAGE.glob("*.py"))) <= MAX_FLAT_MODULES
