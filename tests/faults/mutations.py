"""Hostile variants of real files: of JSON and YAML node by node, and of any file byte by byte."""

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

NUM_MUTATIONS = 10_000

# The same mutations in every run, and nothing left behind: a failure prints what to repeat.
many = settings(
    max_examples=NUM_MUTATIONS,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)

# JSON that `json.dumps` can't write: the text between the marks goes into the file as it is.
MARK = "@@"
AGAIN = "%%again%%"  # the end of a key that is there a second time: it is left out in the file


def raw(text: str) -> str:
    """Stands for `text` itself in the file, without quotes."""
    return f"{MARK}{text}{MARK}"


# A module that writes a file when it is imported: see `watch.HOSTILE`.
HOSTILE_TARGET = "hostile.Network"
HOSTILE: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**64), 10**400, 0.5, -0.0, 1e308, -1e308, 5e-324),
    *(float("nan"), float("inf"), float("-inf"), raw("1e400"), raw("-1E-9999"), raw("9" * 5_000)),
    *("", " ", "x" * 100_000, "\ud800", "a\udfff", "\0", "\n", "1", "nan", "true", "[red]", "<script>", "=1+1"),
    *("..", "../outside", "../../outside", "/etc/passwd", "/dev/zero", "/", "~", "a/b", HOSTILE_TARGET, "antigravity"),
    *([], {}, [None], [[]], {"": None}, {"__class__": "os.system"}, [0] * 1_000, ["x"] * 1_000),
    *([raw("[" * depth + "]" * depth) for depth in (90, 900, 100_000)]),
    *([raw('{"a":' * depth + "1" + "}" * depth) for depth in (90, 900, 100_000)]),
]


@dataclass(frozen=True)
class NodeChange:
    """A change of one node of a document."""

    path: tuple[int, ...]  # at each level the index of a child, modulo their number; it ends where there are none
    kind: str  # one of `KINDS`
    value: int  # an index into `HOSTILE`


def _put(holder: Any, key: Any, value: Any) -> None:
    holder[key] = value


def _duplicate(holder: Any, key: Any, value: Any) -> None:
    """A list gets the item twice, a mapping the same key twice: the second one with a hostile value."""
    if isinstance(holder, list):
        holder.insert(key, holder[key])
    else:
        holder[f"{key}{AGAIN}"] = value


def _rename(holder: Any, key: Any, value: Any) -> None:
    if isinstance(holder, dict):
        holder[value if isinstance(value, str) else str(value)] = holder.pop(key)


def _swap(holder: Any, key: Any, _: Any) -> None:
    """The node and its neighbour change places."""
    keys = list(holder) if isinstance(holder, dict) else range(len(holder))
    other = keys[(list(keys).index(key) + 1) % len(keys)]
    holder[key], holder[other] = holder[other], holder[key]


# What is done with the node at a key of its holder, and a hostile value.
KINDS: dict[str, Callable[[Any, Any, Any], None]] = {
    "replace": _put,
    "delete": lambda holder, key, _: holder.__delitem__(key),
    "duplicate": _duplicate,
    "wrap": lambda holder, key, _: _put(holder, key, [holder[key]]),
    "name": lambda holder, key, _: _put(holder, key, {"value": holder[key]}),
    "text": lambda holder, key, _: _put(holder, key, str(holder[key])),
    "rename": _rename,
    "swap": _swap,
    "negate": lambda holder, key, _: isinstance(holder[key], int | float) and _put(holder, key, -holder[key]),
    "empty": lambda holder, key, _: _put(holder, key, [] if holder[key] is None else type(holder[key])()),
}
_paths = st.lists(st.integers(0, 60), max_size=6).map(tuple)
# Replacing is what finds most.
_kinds = st.sampled_from(["replace"] * 8 + list(KINDS))
node_changes = st.lists(
    st.builds(NodeChange, _paths, _kinds, st.integers(0, len(HOSTILE) - 1)), min_size=1, max_size=2
).map(tuple)


def change_nodes(document: Any, changes: Sequence[NodeChange]) -> Any:
    """`document`, changed in place; another one if a change is of the whole."""
    for change in changes:
        whole = {"whole": document}
        holder, key = whole, "whole"
        for index in change.path:
            node = holder[key]
            if not isinstance(node, dict | list) or not node:
                break
            holder, key = node, (list(node)[index % len(node)] if isinstance(node, dict) else index % len(node))
        KINDS[change.kind](holder, key, copy.deepcopy(HOSTILE[change.value]))
        if "whole" not in whole:
            return None
        document = whole["whole"]
    return document


def to_text(document: Any) -> str:
    """The JSON of a changed document."""
    return json.dumps(document).replace(f'"{MARK}', "").replace(f'{MARK}"', "").replace(AGAIN, "")


TOKENS = [b"\0", b"\xff", b"\n", b'"', b"{", b"]", b"-", b"1e999", b"NaN", b"\\ud800", b"\x80", b"..", b"/", b"\0" * 64]


@dataclass(frozen=True)
class ByteChange:
    """A change of some bytes.

    Attributes:
        kind: `flip` a bit, `set` a byte, `cut` the end, `drop` some bytes, `insert` a token, `splice` a part in, or
            write a `number`, for which the first 100 bytes are likelier than others.
        place, other: positions, modulo the length.
        value: which bit, byte, token or number, and how many bytes.
    """

    kind: str
    place: int
    other: int
    value: int


# As 2 or 4 bytes, in either order: sizes and offsets of pictures and archives.
NUMBERS = [0, 1, 2, 255, 256, 7071, 30_000, 2**15, 2**16 - 1, 2**16, 10**6, 10**8, 2**31 - 1, 2**31, 2**32 - 1]
WIDTHS = [(width, order) for width in (2, 4) for order in ("little", "big")]
BYTE_KINDS = ["flip", "set", "cut", "drop", "insert", "splice", "number", "number"]
_places = st.integers(0, 2**20)
_byte_change = st.builds(ByteChange, st.sampled_from(BYTE_KINDS), _places, _places, st.integers(0, 255))
byte_changes = st.lists(_byte_change, min_size=1, max_size=3).map(tuple)


def change_bytes(content: bytes, changes: Sequence[ByteChange]) -> bytes:
    """`content` with the changes."""
    for change in changes:
        if not content:
            break
        changed, at, value = bytearray(content), change.place % len(content), change.value
        other = change.other % len(content)
        if change.kind == "flip":
            changed[at] ^= 1 << value % 8
        elif change.kind == "set":
            changed[at] = value
        elif change.kind == "cut":
            del changed[at:]
        elif change.kind == "drop":
            del changed[at : at + value]
        elif change.kind == "insert":
            changed[at:at] = TOKENS[value % len(TOKENS)]
        elif change.kind == "number":
            at = change.place % min(100, len(content)) if other % 2 else at
            width, order = WIDTHS[value % len(WIDTHS)]
            number = NUMBERS[value // len(WIDTHS) % len(NUMBERS)] % 256**width
            changed[at : at + width] = number.to_bytes(width, order)
        else:
            changed[at:at] = content[other : other + value]
        content = bytes(changed)
    return content


# Which of several files, and its changes: three of four by node.
mutations = st.tuples(st.integers(0, 11), st.one_of(node_changes, node_changes, node_changes, byte_changes))


def mutated_text(texts: Sequence[str], mutation: tuple[int, Sequence[NodeChange] | Sequence[ByteChange]]) -> bytes:
    """One of the JSON files `texts`, changed."""
    index, changes = mutation
    text = texts[index % len(texts)]
    if isinstance(changes[0], ByteChange):
        return change_bytes(text.encode(), changes)
    return to_text(change_nodes(json.loads(text), changes)).encode()
