"""`accelbench.run` measures each cell in a separate process, like the command line."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from accelbench.api.results import Results
from accelbench.errors import UserError

PLAIN = re.compile(r"[A-Za-z_./][\w./:@+-]*", re.ASCII)  # a text that Hydra takes as it is
# All threads share Hydra's state. So only one thread at a time composes settings.
_COMPOSING = threading.Lock()


def run(settings: str | Sequence[str] = "", *, quiet: bool = False, **values: Any) -> Results:
    """Measures one cell, or a cell for each combination of listed values. Returns all results.

    `run("model=cnn mode=infer", batch_size=[32, 128])` does the same as the command `accelbench -m model=cnn mode=infer
    batch_size=32,128`. It writes records into ./runs (or into the folder `out`). Each cell runs in a fresh process. The
    current process imports no framework, and keeps its arguments, environment variables, folder and signal handlers.

    Args:
        settings: words of the command line, or a list of such words.
        quiet: whether to print nothing. Otherwise progress is printed as on the command line.
        **values: more settings, including `out`, `tracking`, `repeats` and `verbose`. If values are lists, each
            combination of their items is measured. A tuple is one value, such as `(3, 32, 32)`. Names with dots
            need a mapping: `**{"model.args.width": 64}`. A class or function is replaced by its dotted path.

    Raises:
        UserError: a setting is wrong. The text is the same as on the command line.
    """
    words = words_of(settings, values)
    console = Console(highlight=False, quiet=quiet)
    try:
        from accelbench.isolation.hosts import Hosts

        with Hosts() as hosts:
            from accelbench.cluster import controller
            from accelbench.settings.compose import cells_of, compose

            with _COMPOSING, _hydra_as_before():
                cells, options = cells_of(compose(words))
            result = controller.run(cells, options, console, hosts=hosts)
        result.check_request()
    except Exception as error:
        from accelbench.settings.compose import user_error_behind

        mistake = user_error_behind(error)
        if mistake is None or mistake is error:
            raise
        raise mistake from None
    return Results.of_records(result.records, result.folder)


@contextmanager
def _hydra_as_before() -> Iterator[None]:
    """Restores Hydra's global state and OmegaConf's resolvers afterwards, because the caller's code may use them."""
    from hydra.core.singleton import Singleton

    state = Singleton.get_state()
    try:
        yield
    finally:
        Singleton.set_state(state)


def words_of(settings: str | Sequence[str], values: Mapping[str, Any]) -> list[str]:
    """Returns the command line that does the same as a call of `run`. Raises UserError: a word is a flag but not -m."""
    if not isinstance(settings, str | Sequence):
        raise UserError(
            f"run: expects words such as 'model=cnn', not a {type(settings).__name__}: use measure for a network"
        )
    from accelbench.settings.compose import MULTIRUN, words_in  # not at the top: it imports Hydra

    words = words_in(settings) if isinstance(settings, str) else list(settings)
    for word in words:
        if word.startswith("-") and word not in MULTIRUN:
            raise UserError(f"{word}: is a flag of the command line: use settings, such as batch_size=32")
    settings_words = []
    for name, value in values.items():
        axis = value if isinstance(value, list) else [value]
        if not axis:
            raise UserError(f"{name}=[]: an axis needs at least one value")
        settings_words.append(f"{name}={','.join(_word(name, part) for part in axis)}")
    has_axis = any(isinstance(value, list) for value in values.values())
    if has_axis and not MULTIRUN & set(words):
        words = ["-m", *words]
    return words + settings_words


def _word(name: str, value: Any) -> str:
    """The value in Hydra's grammar."""
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, tuple | list):
        return f"[{','.join(_word(name, part) for part in value)}]"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{key}:{_word(name, part)}' for key, part in value.items())}}}"
    if isinstance(value, type | Callable) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    from accelbench.settings.suites import PATHS, quoted  # not at the top: it imports Hydra

    text = str(value)  # such as a path, torch.float16 or a torch.device
    is_plain = PLAIN.fullmatch(text) and text.lower() not in ("null", "true", "false", "nan", "inf")
    return text if is_plain or name in PATHS else quoted(text)  # the command line quotes paths
