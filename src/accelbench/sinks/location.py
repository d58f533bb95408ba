"""The addresses of the MLflow store and of its files, and the lock of its writers."""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from accelbench.errors import UserError, writing_errors
from accelbench.lock import hold
from accelbench.project import shown
from accelbench.schema.secrets import masked
from accelbench.schema.text import beginning, message_of, summary

# Characters that a path in a database's address can't have.
NOT_IN_ADDRESSES = re.compile("[?#%\ud800-\udfff]")
MAX_PROBLEM = 300  # characters of a message
PREFIX = "accelbench/"  # beginning of the names of our experiments
HOST, PORT = "127.0.0.1", 5000  # default address at which `accelbench ui` serves the project's store
PROXIED = "mlflow-artifacts:/"  # beginning of an address relative to the artifacts' folder
PATIENCE_S = 20.0  # how long to wait for another writer, which may be creating the store


def tracking_uri(root: Path) -> str:
    """Returns the store's address: MLFLOW_TRACKING_URI if it is set, otherwise the project's database.

    The address may contain a password. Print `server_uri` or `secrets.masked(address)` instead.
    """
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{database(root)}"


def server_uri(root: Path) -> str | None:
    """Returns the server in MLFLOW_TRACKING_URI, without user and password, or None if the variable names no server."""
    match = re.match(r"(https?://)(?:[^/?#]*@)?(.*)", tracking_uri(root), re.IGNORECASE)
    return match[1] + match[2] if match else None


def is_own(root: Path) -> bool:
    """Is true if the store is the project's database, and false if MLFLOW_TRACKING_URI names another store."""
    return tracking_uri(root) == f"sqlite:///{database(root)}"


def database(root: Path) -> Path:
    """The project's database."""
    return root.resolve() / "mlflow.db"


def artifacts(root: Path) -> Path:
    """The folder of the runs' files, beside the project's database."""
    return root.resolve() / "mlartifacts"


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Holds the store's lock for a `with` block. Waits for the lock without a message, at most `PATIENCE_S` seconds.

    Writers need the lock to create the store, and to deliver a run. Without it, two processes could corrupt a new
    database, or make two runs of one record. Raises UserError if another process keeps the lock, or if the lock's file
    can't be written.
    """
    path = root / "mlflow.lock"
    if is_own(root) and NOT_IN_ADDRESSES.search(str(database(root))):
        raise UserError(
            f"{shown(database(root))}: MLflow can't open a database in a folder whose path has ?, #, % or "
            "bytes that are not UTF-8: name another store with MLFLOW_TRACKING_URI, or use tracking=none"
        )
    with ExitStack() as stack:
        with writing_errors(path.name):
            lock = hold(path, "another writer of the MLflow store", patience_s=PATIENCE_S)
            stack.enter_context(lock)
        if is_own(root):
            # Without this, MLflow would try again for two minutes, and print each attempt.
            try:
                with closing(
                    sqlite3.connect(database(root), timeout=PATIENCE_S, isolation_level=None)
                ) as connection:
                    connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                raise UserError(f"{database(root).name}: not usable ({error})") from error
        yield


def unreachable(root: Path, error: Exception) -> UserError:
    """The UserError for a store that raised `error`."""
    if isinstance(error, UserError):
        return error
    store = masked(tracking_uri(root))
    return UserError(f"the MLflow store {store} (MLFLOW_TRACKING_URI) does not answer: {one_line(error)}")


def one_line(error: Exception) -> str:
    """Returns the beginning of the error's message, without secrets. Without a message, returns the error's type."""
    return beginning(summary(message_of(error)), MAX_PROBLEM) or type(error).__name__
