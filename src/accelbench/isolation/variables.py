"""Environment variables, which cells' processes inherit, put back afterwards."""

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def unchanged() -> Iterator[None]:
    """Puts the environment variables back on leaving; those that did not change are never missing in between."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        for name, value in before.items():
            if os.environ.get(name) != value:
                os.environ[name] = value
