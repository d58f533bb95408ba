"""The file beside a record with the raw times of each request."""

import hashlib
import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accelbench.errors import UserError
from accelbench.schema.serialize import open_regular, writing
from accelbench.serving.server import Served

ROWS = ("due", "issued", "dispatched", "done")  # of the array, in nanoseconds of one clock; -1: did not happen
HEADER_BYTES = 128


def write(served: Served, path: Path) -> str:
    """Writes the times of `served` as a .npy file, int64 of shape (4, requests), and returns the file's sha256.

    Raises OSError: the file can't be written; an older one is then as it was.
    """
    with writing(path) as written:
        with written.open("wb") as file:
            np.save(file, np.stack([getattr(served, row) for row in ROWS]), allow_pickle=False)
        with written.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def read(path: Path, digest: str | None = None) -> NDArray[np.int64]:
    """What `write` wrote. Raises UserError: `path` is no such file, or has another sha256 than `digest`."""
    try:
        with open_regular(path) as file:
            data = file.read()
        times, again = np.frombuffer(data, np.int64, offset=HEADER_BYTES).reshape(len(ROWS), -1), io.BytesIO()
        np.save(again, times, allow_pickle=False)  # its header is compared, for numpy's parser crashes on some
        if again.getvalue() != data or digest not in (None, hashlib.sha256(data).hexdigest()):
            raise ValueError
    except OSError as error:
        raise UserError(f"{path}: can't be read: {error.strerror or error}") from None
    except (ValueError, MemoryError):
        raise UserError(f"{path}: not a file of requests, or damaged: measure the cell again") from None
    return times
