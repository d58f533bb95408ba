"""Where the MLflow store is, and the lock of its writers."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accelbench.errors import UserError
from accelbench.lock import hold
from accelbench.project import store_root
from accelbench.sinks.base import one_line

HOST, PORT = "127.0.0.1", 5000  # where `accelbench ui` serves the project's store by default
LOCAL_SERVER = f"http://{HOST}:{PORT}"


def tracking_uri(root: Path) -> str:
    """The store's address: MLFLOW_TRACKING_URI if it is set, else the project's database."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{database(root)}"


def is_own(root: Path) -> bool:
    """Whether the store is the project's database, not another one that MLFLOW_TRACKING_URI names."""
    return tracking_uri(root) == f"sqlite:///{database(root)}"


def database(root: Path) -> Path:
    """The absolute path of the project's database."""
    return store_root(root).resolve() / "mlflow.db"


def artifacts(root: Path) -> Path:
    """The folder of the runs' files, beside the project's database."""
    return store_root(root).resolve() / "mlartifacts"


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Holds the store's lock, after waiting silently until no other process of the project holds it.

    It is needed to create or migrate the store and to deliver a run: two creators corrupt a database, and two
    processes that deliver the same record would make two runs.
    """
    path = store_root(root) / "mlflow.lock"
    with hold(path, "another writer of the MLflow store", waiting=lambda message: None, for_all_users=False):
        yield


def unreachable(root: Path, error: Exception) -> UserError:
    """The user's error for a store that raised `error` instead of answering."""
    return UserError(f"the MLflow store {tracking_uri(root)} (MLFLOW_TRACKING_URI) does not answer: {one_line(error)}")
