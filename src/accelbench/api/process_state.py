"""What composing and measuring change in a process, put back afterwards: a notebook goes on as it was."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

# Composing replaces sys.argv, which all threads share.
_COMPOSING = threading.RLock()


@contextlib.contextmanager
def unchanged() -> Iterator[None]:
    """Puts sys.argv, the environment variables, the current folder and Hydra's global state back on leaving.

    One thread at a time is inside.
    """
    with _COMPOSING:
        words, folder = list(sys.argv), os.getcwd()
        from hydra.core.singleton import Singleton

        of_hydra = Singleton.get_state()
        with _unchanged_variables():
            try:
                yield
            finally:
                Singleton.set_state(of_hydra)
                os.chdir(folder)
                sys.argv[:] = words


@contextlib.contextmanager
def _unchanged_variables() -> Iterator[None]:
    # Those that did not change are never missing in between: other threads may read them.
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        for name, value in before.items():
            if os.environ.get(name) != value:
                os.environ[name] = value
