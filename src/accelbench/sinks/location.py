"""Where the MLflow store and its files are, and the lock of its writers."""

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

NOT_IN_ADDRESSES = re.compile("[?#%\ud800-\udfff]")  # of a path in the address of a database
MAX_PROBLEM = 300  # characters
PREFIX = "accelbench/"  # of the names of our experiments
HOST, PORT = "127.0.0.1", 5000  # where `accelbench ui` serves the project's store by default
PROXIED = "mlflow-artifacts:/"  # of an address below the artifacts' folder, wherever that is
PATIENCE_S = 20.0  # for another writer, which may create the store


def tracking_uri(root: Path) -> str:
    """The store's address: MLFLOW_TRACKING_URI if it is set, else the project's database.

    It may hold a password: print `server_uri`, or `secrets.masked` of it, instead.
    """
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{database(root)}"


def server_uri(root: Path) -> str | None:
    """The address of the server that MLFLOW_TRACKING_URI names, without a user and a password; None: it names none."""
    match = re.match(r"(https?://)(?:[^/?#]*@)?(.*)", tracking_uri(root), re.IGNORECASE)
    return match[1] + match[2] if match else None


def is_own(root: Path) -> bool:
    """Whether the store is the project's database, not another one that MLFLOW_TRACKING_URI names."""
    return tracking_uri(root) == f"sqlite:///{database(root)}"


def database(root: Path) -> Path:
    """The project's database."""
    return root.resolve() / "mlflow.db"


def artifacts(root: Path) -> Path:
    """The folder of the runs' files, beside the project's database."""
    return root.resolve() / "mlartifacts"


def proxied(suite: str) -> str:
    """The address of the files of a suite's runs in the project's store; it names no folder of this machine."""
    # MLflow's server finds them in the folder that it is started with: a copied or moved project takes its files along.
    return PROXIED + re.sub(r"[^\w-]", "_", suite, flags=re.ASCII)


def folder_of(uri: str, root: Path) -> Path:
    """The folder of the files at `uri`, the address of a run in the project's store.

    Raises UserError: it is not below `artifacts`.
    """
    folder = artifacts(root)
    path = Path(os.path.normpath(folder / uri.removeprefix(PROXIED).lstrip("/")))
    if not uri.startswith(PROXIED) or not path.is_relative_to(folder):
        raise UserError(f"mlflow.db would put files into {uri}: move it away; `accelbench sync` makes a new one")
    return path


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Waits silently for the store's lock, `PATIENCE_S` seconds at most, and holds it.

    Hold it to create the store and to deliver a run: two creators corrupt a database, and two processes that deliver
    the same record would make two runs. Raises UserError: another process keeps the lock, or it can't be written.
    """
    path = root / "mlflow.lock"
    if is_own(root) and NOT_IN_ADDRESSES.search(str(database(root))):
        raise UserError(
            f"{shown(database(root))}: MLflow can't open a database in a folder whose path has ?, #, % or "
            "bytes that are no UTF-8: name another store with MLFLOW_TRACKING_URI, or use tracking=none"
        )
    with ExitStack() as stack:
        with writing_errors(path.name):
            lock = hold(path, "another writer of the MLflow store", patience_s=PATIENCE_S)
            stack.enter_context(lock)
        if is_own(root):
            # MLflow would try again for two minutes, and print each attempt.
            try:
                with closing(sqlite3.connect(database(root), timeout=PATIENCE_S, isolation_level=None)) as connection:
                    connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                raise UserError(f"{database(root).name}: not usable ({error})") from error
        yield


def unreachable(root: Path, error: Exception) -> UserError:
    """The user's error for a store that raised `error` instead of answering."""
    if isinstance(error, UserError):
        return error
    store = masked(tracking_uri(root))
    return UserError(f"the MLflow store {store} (MLFLOW_TRACKING_URI) does not answer: {one_line(error)}")


def one_line(error: Exception) -> str:
    """The beginning of the error's message, without secrets; the error's type if there is no message."""
    return beginning(summary(message_of(error)), MAX_PROBLEM) or type(error).__name__
