"""How large a request may be. Checked before anything is composed: a slip of the keyboard must not fill the memory."""

import math
from collections.abc import Iterable

import yaml
from hydra.core.override_parser.types import ChoiceSweep, Override, RangeSweep

from accelbench.errors import UserError

MAX_CELLS = 10_000  # of a sweep; composing one takes some 5 ms
MAX_BRACKETS = 20  # within each other; a parser calls itself for each
MAX_BYTES = 200_000  # of a YAML file
MAX_NODES = 20_000  # of a YAML file, with every alias written out
REFERENCE = "${"
AT_MOST = f"a sweep has at most {MAX_CELLS:,}: name fewer values, or run a sweep for each value of an axis"


def check_brackets(word: str) -> None:
    """Raises a UserError if the brackets of a setting are nested deeper than `MAX_BRACKETS`."""
    depth = 0
    for character in word:
        depth += (character in "[{(") - (character in "]})")
        if depth > MAX_BRACKETS:
            raise UserError(f"{word[:MAX_BRACKETS]}...: more than {MAX_BRACKETS} brackets within each other")


def check_combinations(overrides: Iterable[Override]) -> int:
    """The number of combinations of all values that a sweep's overrides list.

    Raises:
        UserError: it is 0, or above `MAX_CELLS`; the message names the axes with their lengths.
    """
    lengths = {override.get_key_element(): _num_values(override) for override in overrides}
    if empty := [name for name, length in lengths.items() if not length]:
        raise UserError(f"{', '.join(empty)}: a range without a value")
    num = math.prod(lengths.values())
    if num > MAX_CELLS:
        axes = " x ".join(f"{name} ({_count(length)})" for name, length in lengths.items() if length > 1)
        raise UserError(f"{axes}: {_count(num)} combinations; {AT_MOST}")
    return num


def check_cells(num: int, flag: str) -> None:
    """Raises a UserError if a sweep has more than `MAX_CELLS` cells."""
    if num > MAX_CELLS:
        raise UserError(f"{flag}: makes {_count(num)} cells; {AT_MOST}")


def _count(num: int) -> str:
    return f"{num:,}" if num < 10**12 else f"over {10**12:,}"


def _num_values(override: Override) -> int:
    value = override.value()
    if isinstance(value, ChoiceSweep):
        return len(value.list)
    if not isinstance(value, RangeSweep):
        return 1
    start, stop, step = value.start or 0, value.stop or 0, value.step
    try:
        length: int = math.ceil((stop - start) / step)
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        raise UserError(f"{override.input_line}: a range needs finite bounds, and a step other than 0") from error
    return max(0, length)


def check_yaml(text: str) -> None:
    """Checks the size of a YAML file from its parser's events, which are read one by one: nothing is constructed.

    Raises:
        UserError: the file is longer than `MAX_BYTES`, has more than `MAX_NODES` nodes with every alias written out, is
            nested deeper than `MAX_BRACKETS`, contains itself, has a reference such as `${name}`, or is one value.
        yaml.YAMLError: it is no YAML.
    """
    if len(text) > MAX_BYTES:
        raise UserError(f"more than {MAX_BYTES:,} characters")
    sizes: dict[str, int] = {}  # anchor -> nodes below it
    open_nodes: list[tuple[str | None, int]] = []  # anchor, and the nodes before it
    num = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        line = f"line {event.start_mark.line + 1}"
        if isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in open_nodes):
                raise UserError(f"{line}: *{event.anchor} is a part of itself")
            num += sizes.get(event.anchor, 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, num))
            num += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            sizes |= {anchor: num - before} if anchor else {}
        elif isinstance(event, yaml.ScalarEvent):
            if not open_nodes:  # OmegaConf would read a text as YAML once more
                raise UserError("one value, no mapping")
            num += 1
            sizes |= {event.anchor: 1} if event.anchor else {}
            if REFERENCE in event.value:
                raise UserError(f"{line}: {REFERENCE}...}} is not replaced here, nor by DVC: use an anchor")
        if num > MAX_NODES:
            raise UserError(f"{line}: more than {MAX_NODES:,} values, with every alias written out")
        if len(open_nodes) > MAX_BRACKETS:
            raise UserError(f"{line}: more than {MAX_BRACKETS} brackets within each other")
