"""Where the MLflow store is, and the lock that keeps its writers apart."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accelbench.errors import UserError
from accelbench.project import store_root
from accelbench.sinks.base import one_line

HOST, PORT = "127.0.0.1", 5000  # where `accelbench ui` serves the project's own store, unless told otherwise
LOCAL_SERVER = f"http://{HOST}:{PORT}"


def tracking_uri(root: Path) -> str:
    """The store's address: MLFLOW_TRACKING_URI where it is set, else the project's own database."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{database(root)}"


def is_own(root: Path) -> bool:
    """Whether the store is the project's own database, not one that MLFLOW_TRACKING_URI names."""
    return tracking_uri(root) == f"sqlite:///{database(root)}"


def database(root: Path) -> Path:
    """The project's own database, absolute."""
    return store_root(root).resolve() / "mlflow.db"


def artifacts(root: Path) -> Path:
    """The folder of the runs' files, beside the project's own database."""
    return store_root(root).resolve() / "mlartifacts"


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Holds the store's lock against every other process of this project; the kernel frees a dead holder's.

    Whoever creates or migrates the store, or delivers a run, holds it for as long as that takes: two creators
    corrupt a database, and two deliverers of one record would make two runs of it.
    """
    path = store_root(root) / "mlflow.lock"
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def unreachable(root: Path, error: Exception) -> UserError:
    """What to tell the user when the store raised `error` where it had to answer."""
    return UserError(f"the MLflow store {tracking_uri(root)} (MLFLOW_TRACKING_URI) does not answer: {one_line(error)}")
