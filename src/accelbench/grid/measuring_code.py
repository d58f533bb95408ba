"""The code that a number passes through, and its digest: of what it says, not of where it is written.

A definition (a function, class or constant of a module) counts by its syntax, without comments, docstrings and the
names of accelbench's modules: if a file is renamed, or a definition moves to another file, the digest stays.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from accelbench.schema.serialize import read_bytes
from accelbench.schema.vocab import EXPORTING, Engine

OWN = "accelbench."
# All that these modules, and those below them, define is measuring code. So are the modules of engines/ itself, and the
# folder of the cell's engine. What these use is measuring code as well, in whatever file it is.
ENTRIES = (
    "devices",
    "isolation",
    "measuring",
    # The probe: every engine's cells are judged by what it finds.
    "engines.lightning.probe",
)
# The folders of engines/ whose code runs in the cells of every engine that exports networks of PyTorch.
BUILT_ON = ("exported", "lightning")
# Measuring code uses these, but no number depends on them: messages, texts, names and places of files, the ranges of
# kept numbers, words (a new word must not measure every cell again; those that a cell uses are among its settings) and
# the type of the ceilings, which no cell is measured with.
NOT_MEASURING = (
    *("errors", "project", "scratch"),
    *("schema.ceilings", "schema.ranges", "schema.secrets", "schema.setting", "schema.text"),
    "schema.vocab",
)
SETTING = ("schema.setting", "setting")

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
Key = tuple[str, str]  # the module and the name of a definition; "" is what runs at its import and defines nothing


@dataclass(frozen=True)
class Definition:
    """What a definition says: a digest of its syntax, and the definitions of accelbench that it names."""

    digest: str
    uses: frozenset[Key]


def code_digest(package: Path, engine: Engine | None = None) -> str:
    """The sha256 over the definitions that a number of `engine` passes through; of every engine if it is None.

    Raises FileNotFoundError: `package` holds none of them.
    """
    found = measuring_code(package, engine)
    if not found:
        raise FileNotFoundError(f"{package}: not the folder of the accelbench package")
    lines = []
    for (_, name), definition in found.items():
        # Two definitions may have one name: their digests tell which of them is meant.
        used = sorted(f"{key[1]}={found[key].digest}" for key in definition.uses if key in found)
        lines.append(f"{name} {definition.digest} {' '.join(used)}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def measuring_code(package: Path, engine: Engine | None = None) -> dict[Key, Definition]:
    """The definitions that a number of `engine` passes through; of every engine if it is None."""
    paths = {path.relative_to(package).with_suffix(""): path for path in sorted(package.rglob("*.py"))}
    modules = {".".join(name.parts): read_bytes(path) for name, path in paths.items() if name.name != "__init__"}
    source = _source(tuple(modules.items()))
    waiting = [key for module in source.texts if _is_entry(module, engine) for key in source.keys(module)]
    found: dict[Key, Definition] = {}
    while waiting:
        key = waiting.pop()
        if key not in found and not _is_below(key[0], NOT_MEASURING):
            found[key] = source.definition(key)
            effects = [each for each in source.keys(key[0]) if not each[1]]
            waiting += [*found[key].uses, *effects]
    return found


def _is_entry(module: str, engine: Engine | None) -> bool:
    room, _, below = module.partition(".")
    if room == "engines" and (engine is None or "." not in below):
        return True
    folders = [engine, *(BUILT_ON if engine in EXPORTING else [])]
    return _is_below(module, [*ENTRIES, *(f"engines.{folder}" for folder in folders)])


def _is_below(module: str, parents: Iterable[str]) -> bool:
    return any(f"{module}.".startswith(f"{parent}.") for parent in parents)


@lru_cache(maxsize=1)  # the engines of a sweep have one source
def _source(texts: tuple[tuple[str, bytes], ...]) -> "_Source":
    return _Source(dict(texts))


class _Source:
    """The modules of a package, which are parsed once they are asked for.

    `texts`: name of a module, without that of the package -> its file's contents.
    """

    def __init__(self, texts: dict[str, bytes]) -> None:
        self.texts = texts
        self._modules: dict[str, _Module] = {}
        self._said: dict[ast.stmt, Definition] = {}  # one statement may define several names

    def module(self, name: str) -> "_Module":
        if name not in self._modules:
            self._modules[name] = _Module(ast.parse(self.texts[name]))
        return self._modules[name]

    def keys(self, module: str) -> list[Key]:
        return [(module, name) for name in self.module(module).statements]

    def definition(self, key: Key) -> Definition:
        said = []
        for statement in self.module(key[0]).statements[key[1]]:
            if statement not in self._said:
                reader = _Reader(self, key[0])
                text = ast.dump(reader.visit(statement))
                self._said[statement] = Definition(hashlib.sha256(text.encode()).hexdigest(), frozenset(reader.uses))
            said.append(self._said[statement])
        return Definition(" ".join(each.digest for each in said), frozenset().union(*(each.uses for each in said)))

    def meaning(self, module: str, name: str) -> Key | str | None:
        """A definition, the dotted path of something else that is imported, or None of what is not global."""
        known = self.module(module)
        if name in known.statements:
            return module, name
        if (path := known.imports.get(name)) is None or not path.startswith(OWN) or self.module_at(path):
            return path
        inner, _, own_name = path.removeprefix(OWN).rpartition(".")
        return (self.meaning(inner, own_name) if inner in self.texts else None) or path

    def module_at(self, path: Key | str | None) -> str | None:
        """The module of this package that a dotted path names."""
        name = path.removeprefix(OWN) if isinstance(path, str) and path.startswith(OWN) else ""
        return name if name in self.texts else None


class _Module:
    """What a file defines and imports."""

    def __init__(self, tree: ast.Module) -> None:
        self.imports: dict[str, str] = {}  # a name -> the dotted path of what it imports, anywhere in the file
        self.statements: dict[str, list[ast.stmt]] = {}  # a name -> the statements that define it
        for statement in tree.body:
            if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
                continue
            for node in _statements(statement):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    self.imports |= _imported(node)
            if not isinstance(statement, ast.Import | ast.ImportFrom) and not _is_text(statement):
                inner = ast.iter_child_nodes(statement)
                names = {statement.name} if isinstance(statement, DEFINITIONS) else _assigned(inner)
                for name in names or {""}:
                    self.statements.setdefault(name, []).append(statement)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and those inside: quicker than `ast.walk`, which also visits expressions."""
    yield node
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        inner = getattr(node, name, None)
        for each in inner if isinstance(inner, list) else []:
            yield from _statements(each)


def _imported(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    if isinstance(node, ast.ImportFrom):
        return {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    # `import a.b` gives the name a, `import a.b as c` gives a.b the name c.
    paths = {each.asname or "": each.name for each in node.names}
    roots = {name: name for each in node.names if not each.asname and (name := each.name.partition(".")[0])}
    return roots | {name: path for name, path in paths.items() if name}


def _assigned(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that get a value in the scope of these nodes: not in that of a function inside."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (*DEFINITIONS, ast.ExceptHandler)) and node.name:
            found.add(node.name)
        if not isinstance(node, (*DEFINITIONS, ast.Lambda)):
            found |= _assigned(ast.iter_child_nodes(node))
    return found


def _is_text(statement: ast.AST) -> bool:
    """Whether it is a docstring."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


class _Reader(ast.NodeTransformer):
    """Makes a definition's syntax independent of the place: each global name becomes that of what it means."""

    def __init__(self, source: _Source, module: str) -> None:
        self.uses: set[Key] = set()
        self._source = source
        self._module = module
        self._local: list[set[str]] = []

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(body := getattr(node, "body", None), list):
            body[:] = [each for each in body if not _is_text(each)]
        return super().generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> ast.AST:
        body = node.body if isinstance(node.body, list) else [node.body]
        arguments = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        shared = {name for each in _statements(node) if isinstance(each, ast.Global) for name in each.names}
        shared |= {each.id for each in ast.walk(node.args) if isinstance(each, ast.Name)}  # in defaults, as `n=n`
        self._local.append((arguments | _assigned(body)) - shared)
        self.generic_visit(node)
        self._local.pop()
        return node

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> ast.AST | None:
        """An import inside a function takes time there; that of accelbench's own code has taken it before."""
        paths = [path for path in _imported(node).values() if not path.startswith(OWN)]
        return ast.Expr(ast.Constant(" ".join(sorted(paths)))) if paths else None

    visit_ImportFrom = visit_Import

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Of a setting's declaration, its default counts: what is said of it, such as its help, changes no number."""
        if isinstance(node.func, ast.Name) and self._meaning(node.func) == SETTING:
            node.args, node.keywords = node.args[:1], [each for each in node.keywords if each.arg == "factory"]
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not isinstance(node.ctx, ast.Load):
            return node
        return self._named(self._meaning(node), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """`cpu.look` of the module `cpu` is the same as `look` that is imported from it."""
        module = isinstance(node.value, ast.Name) and self._source.module_at(self._meaning(node.value))
        if module and isinstance(node.ctx, ast.Load):
            return self._named(self._source.meaning(module, node.attr), ast.Name(node.attr, node.ctx))
        return self.generic_visit(node)

    def _meaning(self, node: ast.Name) -> Key | str | None:
        is_local = any(node.id in names for names in self._local)
        return None if is_local else self._source.meaning(self._module, node.id)

    def _named(self, meaning: Key | str | None, node: ast.Name) -> ast.AST:
        if isinstance(meaning, tuple):
            self.uses.add(meaning)
            return ast.Name(meaning[1], node.ctx)
        if module := self._source.module_at(meaning):  # a module itself is passed on: it may be used for anything
            self.uses.update(self._source.keys(module))
            return ast.Name("", node.ctx)
        return ast.Name(meaning, node.ctx) if meaning else node
