"""Rules that ruff does not have: the size and density of src, and no expressions that should be several statements.

`python tests/test_style.py [FOLDER ...]` lists such expressions.
"""

import ast
import io
import re
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "bench", "docs", "environments", "pipelines", "studies")
# The limits of an owner who holds all of it.
MAX_TOKENS = 200_000
MAX_TOKENS_PER_LINE = 6.5

LEFT = 1  # expression that should be several statements; none may be added

LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
LAYOUT |= {tokenize.ENCODING, tokenize.ENDMARKER}
FLAG = re.compile(r"(is|has|was|can)_|(bool|isinstance|any|all)$")


def count(path: Path) -> int:
    """Tokens of a file; comments, blank lines and indents are none, a docstring is one."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    return sum(1 for token in tokens if token.type not in LAYOUT)


def why_crowded(node: ast.AST) -> str | None:
    """Which rule the expression breaks that should be several statements."""
    match node:
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() if num_clauses(node) > 2:
            return "comprehension with a condition over more than two clauses"
        case ast.IfExp() if any(isinstance(inner, ast.IfExp) for inner in ast.walk(node) if inner is not node):
            return "conditional expression in another"
        case ast.Assign() if any(assigns_several(target, node.value) for target in node.targets):
            return "assignment of several things"
        case ast.BinOp(op=ast.Mult()) if is_condition(node.left) or is_condition(node.right):
            return "product with a condition"
        case ast.Starred(value=ast.BinOp() | ast.Tuple() | ast.List() | ast.Set()):
            return "list unpacked into another"
        case ast.Dict() if any(key is None and isinstance(node.values[i], ast.Dict) for i, key in enumerate(node.keys)):
            return "dictionary unpacked into another"
    return None


def num_clauses(comprehension: ast.expr) -> int:
    """`for`s and conditions. The parts of a condition count; without a condition there may be any number of `for`s."""
    conditions = [condition for clause in comprehension.generators for condition in clause.ifs]
    parts = [max(1, len(each.values) - 1) if isinstance(each, ast.BoolOp) else 1 for each in conditions]
    return len(comprehension.generators) + sum(parts) if conditions else 0


def assigns_several(target: ast.expr, value: ast.expr) -> bool:
    """Whether a tuple of expressions is assigned that are more than three, or neither plain, nor alike, nor a swap."""
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
        return False
    if set(map(ast.unparse, target.elts)) == set(map(ast.unparse, value.elts)):
        return False
    is_constant = all(isinstance(item, ast.Constant) for item in value.elts)
    return len(set(map(form, value.elts))) > 1 or (len(value.elts) > 3 and not is_constant)


def form(value: ast.expr) -> str:
    """An expression without its names and constants: plain, if it is a name, a constant or an empty container."""
    is_call = isinstance(value, ast.Call) and isinstance(value.func, (ast.Name, ast.Subscript))
    is_empty = ast.unparse(value).endswith("()") if is_call else ast.unparse(value) in ("[]", "{}", "()")
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


def list_crowded(folders: list[Path]) -> list[str]:
    """A line about each expression that should be several statements."""
    found = []
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        name, text = path.relative_to(ROOT), path.read_text()
        for node in ast.walk(ast.parse(text)):
            if (rule := why_crowded(node)) is not None:
                line = text.splitlines()[node.lineno - 1].strip()
                found.append(f"{name}:{node.lineno}: {rule}: {line}")
    return found


def test_src_is_no_larger_and_no_denser():
    paths = list((ROOT / "src").rglob("*.py"))
    num_tokens = sum(count(path) for path in paths)
    num_lines = sum(len(path.read_text().splitlines()) for path in paths)
    assert num_tokens <= MAX_TOKENS
    assert num_tokens / num_lines <= MAX_TOKENS_PER_LINE


def test_one_statement_does_one_thing():
    found = list_crowded([ROOT / name for name in FOLDERS])
    assert len(found) <= LEFT, "\n".join(found)


if __name__ == "__main__":
    print(*list_crowded([ROOT / word for word in sys.argv[1:] or FOLDERS]), sep="\n")
