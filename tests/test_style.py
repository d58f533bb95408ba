"""Rules that ruff does not have: the size and density of src, and no expressions that should be several statements.

`python tests/test_style.py [FOLDER ...]` lists such expressions.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "bench", "docs", "environments", "pipelines", "studies")
# Each change that makes src smaller makes these smaller, too. The aim: 200,000 and 6.5.
MAX_TOKENS = 201_350
MAX_TOKENS_PER_LINE = 6.7

# Room of src -> how many expressions that should be several statements it still has; none may be added.
LEFT = {
    "commands": 2,
}

LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
LAYOUT |= {tokenize.ENCODING, tokenize.ENDMARKER}
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FLAG = re.compile(r"(is|has|was|can)_|(bool|isinstance|any|all)$")


def count(path: Path) -> int:
    """Tokens of a file; comments, blank lines and indents are none, a docstring is one."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    return sum(1 for token in tokens if token.type not in LAYOUT)


def crowded(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line of each expression that should be several statements, with the rule that it breaks."""
    for node in ast.walk(tree):
        if isinstance(node, COMPREHENSIONS) and num_clauses(node) > 2:
            yield node.lineno, "comprehension with a condition over more than two clauses"
        elif isinstance(node, ast.IfExp) and any(isinstance(inner, ast.IfExp) for inner in inside(node)):
            yield node.lineno, "conditional expression in another"
        elif isinstance(node, ast.Assign) and any(assigns_several(target, node.value) for target in node.targets):
            yield node.lineno, "assignment of several things"
        elif (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Mult)
            and any(map(is_condition, (node.left, node.right)))
        ):
            yield node.lineno, "product with a condition"
        elif isinstance(node, ast.Starred) and isinstance(node.value, (ast.BinOp, ast.Tuple, ast.List, ast.Set)):
            yield node.lineno, "list unpacked into another"
        elif isinstance(node, ast.Dict) and any(isinstance(node.values[i], ast.Dict) for i in unpacked(node)):
            yield node.lineno, "dictionary unpacked into another"


def inside(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield from ast.walk(child)


def unpacked(node: ast.Dict) -> list[int]:
    return [index for index, key in enumerate(node.keys) if key is None]


def num_clauses(comprehension: ast.ListComp) -> int:
    """`for`s and conditions. The parts of a condition count; without a condition there may be any number of `for`s."""
    conditions = [condition for clause in comprehension.generators for condition in clause.ifs]
    if not conditions:
        return 0
    num = len(comprehension.generators)
    for condition in conditions:
        num += max(1, len(condition.values) - 1) if isinstance(condition, ast.BoolOp) else 1
    return num


def assigns_several(target: ast.expr, value: ast.expr) -> bool:
    """Whether a tuple of expressions is assigned that are more than three, or neither plain, nor alike, nor a swap."""
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
        return False
    if {ast.unparse(item) for item in target.elts} == {ast.unparse(item) for item in value.elts}:
        return False
    forms = {form(item) for item in value.elts}
    is_constant = all(isinstance(item, ast.Constant) for item in value.elts)
    return len(forms) > 1 or (len(value.elts) > 3 and not is_constant)


def form(value: ast.expr) -> str:
    """An expression without its names and constants: plain, if it is a name, a constant or an empty container."""
    is_empty = isinstance(value, ast.Call) and not value.args and not value.keywords
    is_empty = is_empty and isinstance(value.func, (ast.Name, ast.Subscript))
    is_empty = is_empty or ast.unparse(value) in ("[]", "{}", "()")
    if is_empty or isinstance(value, (ast.Name, ast.Constant, ast.Attribute)):
        return "plain"
    return re.sub(r"(id|value)=('[^']*'|[\d.]+|None|True|False)", "", ast.dump(value))


def is_condition(node: ast.expr) -> bool:
    if isinstance(node, ast.BoolOp):
        return isinstance(node.op, ast.And)  # `number or 0` is a number
    if isinstance(node, (ast.Compare, ast.UnaryOp)):
        return not isinstance(node, ast.UnaryOp) or isinstance(node.op, ast.Not)
    word = node.func if isinstance(node, ast.Call) else node
    is_name = isinstance(word, (ast.Name, ast.Attribute))
    return is_name and FLAG.match(ast.unparse(word).rpartition(".")[2]) is not None


def list_crowded(folders: list[Path]) -> dict[str, list[str]]:
    """Room -> a line about each expression that should be several statements."""
    rooms: dict[str, list[str]] = {}
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        text = path.read_text()
        lines = text.splitlines()
        name = path.relative_to(ROOT)
        for number, rule in sorted(crowded(ast.parse(text))):
            room = "/".join(name.parts[:3])
            rooms.setdefault(room, []).append(f"{name}:{number}: {rule}: {lines[number - 1].strip()}")
    return rooms


def test_src_is_no_larger_and_no_denser():
    paths = list((ROOT / "src").rglob("*.py"))
    num_tokens = sum(count(path) for path in paths)
    num_lines = sum(len(path.read_text().splitlines()) for path in paths)
    assert num_tokens <= MAX_TOKENS
    assert num_tokens / num_lines <= MAX_TOKENS_PER_LINE


def test_one_statement_does_one_thing():
    for room, messages in list_crowded([ROOT / name for name in FOLDERS]).items():
        assert len(messages) <= LEFT.get(room.removeprefix("src/accelbench/"), 0), "\n".join(messages)


if __name__ == "__main__":
    folders = [Path(word).resolve() for word in sys.argv[1:]] or [ROOT / name for name in FOLDERS]
    for room, messages in list_crowded(folders).items():
        print(f"{room}: {len(messages)}", *messages, "", sep="\n")
