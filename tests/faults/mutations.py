"""Hostile variants of real files: of JSON and YAML node by node, and of any file byte by byte.

What is drawn comes from a `Random` whose seed is the number of the mutation: each number gives the same one again.
"""

import copy
import json
from collections.abc import Sequence
from random import Random
from typing import Any

# JSON that `json.dumps` can't write: the text between the marks goes into the file as it is.
MARK = "@@"
AGAIN = "%%again%%"  # the end of a key that is there a second time: it is left out in the file


def raw(text: str) -> str:
    """Stands for `text` itself in the file, without quotes."""
    return f"{MARK}{text}{MARK}"


HOSTILE_TARGET = "hostile.Network"  # a module that must not be imported
HOSTILE: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**64), 10**400, 0.5, -0.0, 1e308, -1e308, 5e-324),
    *(float("nan"), float("inf"), float("-inf"), raw("1e400"), raw("-1E-9999"), raw("9" * 5_000)),
    *("", " ", "x" * 100_000, "\ud800", "a\udfff", "\0", "\n", "1", "nan", "true", "[red]", "<script>", "=1+1"),
    *("..", "../outside", "../../outside", "/etc/passwd", "/dev/zero", "/", "~", "a/b", HOSTILE_TARGET, "antigravity"),
    *([], {}, [None], [[]], {"": None}, {"__class__": "os.system"}, [0] * 1_000, ["x"] * 1_000),
    *([raw("[" * depth + "]" * depth) for depth in (90, 900, 100_000)]),
    *([raw('{"a":' * depth + "1" + "}" * depth) for depth in (90, 900, 100_000)]),
]
# Replacing is what finds most.
KINDS = ["replace"] * 9 + ["delete", "duplicate", "wrap", "text", "negate", "rename", "swap"]


def change_node(document: Any, dice: Random) -> Any:
    """A copy of `document` with one node changed, which may be the whole."""
    whole = {"whole": copy.deepcopy(document)}
    holder, key = whole, "whole"
    while isinstance(node := holder[key], dict | list) and node and dice.random() < 0.85:
        holder, key = node, dice.choice([*node] if isinstance(node, dict) else range(len(node)))
    value, kind, is_dict = copy.deepcopy(dice.choice(HOSTILE)), dice.choice(KINDS), isinstance(holder, dict)
    if kind == "delete":
        del holder[key]
    elif kind == "duplicate" and is_dict:  # a key that is there twice
        holder[f"{key}{AGAIN}"] = value
    elif kind == "duplicate":
        holder.insert(key, holder[key])
    elif kind == "wrap":
        holder[key] = [holder[key]]
    elif kind == "text":
        holder[key] = str(holder[key])
    elif kind == "negate" and isinstance(holder[key], int | float):
        holder[key] = -holder[key]
    elif kind == "rename" and is_dict:
        holder[str(value)] = holder.pop(key)
    elif kind == "swap":
        other = dice.choice([*holder] if is_dict else range(len(holder)))
        holder[key], holder[other] = holder[other], holder[key]
    else:
        holder[key] = value
    return whole.get("whole")


def to_text(document: Any) -> str:
    """The JSON of a changed document."""
    return json.dumps(document).replace(f'"{MARK}', "").replace(f'{MARK}"', "").replace(AGAIN, "")


TOKENS = [b"\0", b"\xff", b"\n", b'"', b"{", b"]", b"-", b"1e999", b"NaN", b"\\ud800", b"\x80", b"..", b"/", b"\0" * 64]
# As 2 or 4 bytes, in either order: sizes and offsets of pictures and archives.
NUMBERS = [0, 1, 2, 255, 256, 7071, 30_000, 2**15, 2**16 - 1, 2**16, 10**6, 10**8, 2**31 - 1, 2**31, 2**32 - 1]


def change_bytes(content: bytes, dice: Random) -> bytes:
    """`content` with up to three changes, of which many are in the first 100 bytes."""
    for _ in range(dice.randint(1, 3)):
        if not content:
            break
        changed = bytearray(content)
        at = dice.randrange(min(100, len(content)) if dice.random() < 0.3 else len(content))
        kind, num = dice.choice(("flip", "cut", "drop", "insert", "number", "number", "splice")), dice.randrange(256)
        if kind == "flip":
            changed[at] ^= 1 << num % 8
        elif kind == "cut":
            del changed[at:]
        elif kind == "drop":
            del changed[at : at + num]
        elif kind == "insert":
            changed[at:at] = dice.choice(TOKENS)
        elif kind == "number":
            width = dice.choice((2, 4))
            number = dice.choice(NUMBERS) % 256**width
            changed[at : at + width] = number.to_bytes(width, dice.choice(("little", "big")))
        else:
            other = dice.randrange(len(content))
            changed[at:at] = content[other : other + num]
        content = bytes(changed)
    return content


def mutated_text(texts: Sequence[str], dice: Random) -> bytes:
    """One of the JSON files `texts`, changed: three of four by node."""
    text = dice.choice(texts)
    if dice.random() < 0.25:
        return change_bytes(text.encode(), dice)
    document = json.loads(text)
    for _ in range(dice.randint(1, 2)):
        document = change_node(document, dice)
    return to_text(document).encode()
