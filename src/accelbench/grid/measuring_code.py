"""The digest of the code that measures: of what it says, not of where it is written.

A plain rule: what the files below define counts by its syntax, without comments, docstrings and the places of
accelbench's own code in imports. So a file may be renamed, and a definition may move to another of these files, and no
cell is measured again. An edit here that changes no number measures them again all the same. A name that several of
these files define counts with its place, since a change of which one is meant may change a number.
"""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from accelbench.schema.serialize import read_bytes
from accelbench.schema.vocab import EXPORTING, Engine

# The rooms and files that a number passes through, besides the files of engines/ itself and the cell's engine.
ROOMS = (
    *("devices", "isolation", "measuring", "serving", "stats", "lifeline.py", "judging/asked.py", "judging/load.py"),
    *("data/arrays.py", "data/decode.py", "data/order.py"),
    *("schema/cell.py", "schema/measurement.py", "schema/serving.py", "schema/target.py"),
    "schema/workload.py",
    "engines/lightning/probe.py",  # every engine's cells are judged by what it finds
)
# The folders of engines/ whose code runs in the cells of every engine that exports networks of PyTorch.
BUILT_ON = ("exported", "lightning")
PACKAGE_NAME = "accelbench"


def code_digest(package: Path, engine: Engine | None = None) -> str:
    """The sha256 over what the code says that measures the cells of `engine`; of every engine if it is None.

    Raises FileNotFoundError: `package` holds no such code.
    """
    said: set[str] = set()
    for path in measuring_files(package, engine):
        said |= _said(read_bytes(path), path.relative_to(package), package)
    if not said:
        raise FileNotFoundError(f"{package}: not the folder of the accelbench package")
    return hashlib.sha256("\n".join(sorted(said)).encode()).hexdigest()


def measuring_files(package: Path, engine: Engine | None = None) -> list[Path]:
    """The files of the code that measures the cells of `engine`; of every engine if it is None."""
    files = list(package.glob("engines/*.py"))
    engines = ["*"] if engine is None else [engine.value, *(BUILT_ON if engine in EXPORTING else ())]
    for place in (*ROOMS, *(f"engines/{name}" for name in engines)):
        files += package.glob(place if place.endswith(".py") else f"{place}/**/*.py")
    return files


@cache
def _names(text: bytes) -> frozenset[str]:
    return frozenset(name for statement in ast.parse(text).body for name in _defined(statement))


def _defined(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement at the top of a file defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


@cache
def _ambiguous(package: Path) -> frozenset[str]:
    """The names that several of the files define that measure the cells of any engine."""
    counted = Counter(name for path in set(measuring_files(package)) for name in _names(read_bytes(path)))
    return frozenset(name for name, num in counted.items() if num > 1)


@cache  # the engines of a sweep share most files
def _said(text: bytes, path: Path, package: Path) -> frozenset[str]:
    """A digest of each definition at the top of a file, and what the file imports of others' packages."""
    reader, found = _Reader(package), set()
    for statement in ast.parse(text).body:
        place = path if _ambiguous(package).intersection(_defined(statement)) else ""
        read = reader.visit(statement)
        if read is not None and not _is_text(read):
            found.add(f"{place}{ast.dump(read)}")
    return frozenset(hashlib.sha256(said.encode()).hexdigest() for said in (*found, *reader.imported))


def _is_text(statement: ast.AST) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


class _Reader(ast.NodeTransformer):
    """Takes from a file's syntax what depends on where it is: imports, and the names of accelbench's modules."""

    def __init__(self, package: Path) -> None:
        self.imported: set[str] = set()
        self._package, self._ambiguous = package, _ambiguous(package)
        self._modules: set[str] = set()  # the names that stand for modules of accelbench

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(body := getattr(node, "body", None), list):
            body[:] = [each for each in body if not _is_text(each)]
        return super().generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module, *below = str(node.module).split(".")
        for each in node.names:
            name = each.asname or each.name
            if module != PACKAGE_NAME:
                self.imported.add(f"from {node.module} import {each.name} as {name}")
            elif self._package.joinpath(*below, f"{each.name}.py").is_file():
                self._modules.add(name)
            elif each.asname or name in self._ambiguous:
                self.imported.add(f"{each.name} as {name}" + (f" of {node.module}" if name in self._ambiguous else ""))

    def visit_Import(self, node: ast.Import) -> None:
        self.imported |= {ast.unparse(ast.Import([each])) for each in node.names}

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """`cpu.look` of the module `cpu` is the same as `look` that is imported from it."""
        is_ours = isinstance(node.value, ast.Name) and node.value.id in self._modules
        if is_ours and node.attr not in self._ambiguous:
            return ast.Name(node.attr, node.ctx)
        return self.generic_visit(node)
