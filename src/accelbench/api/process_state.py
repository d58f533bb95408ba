"""What composing and measuring change in a process, put back afterwards: a notebook goes on as it was."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

from accelbench.isolation import variables

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
        with variables.unchanged():
            try:
                yield
            finally:
                Singleton.set_state(of_hydra)
                os.chdir(folder)
                sys.argv[:] = words
