"""Reads Python 2's pickles of byte arrays, such as CIFAR-10's batches, without running anything that they name."""

import pickle
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accelbench.errors import DataError


class PickledArray:
    """Stands for a numpy array in a pickle: keeps what the pickle says of it, so that no code of numpy's reads it."""

    def __init__(self, *unused: object) -> None:
        self._state: Sequence[Any] = ()

    def __setstate__(self, state: Sequence[Any]) -> None:
        self._state = state

    def array(self) -> NDArray[np.uint8]:
        """The array, read-only.

        Raises:
            DataError: it is not an array of bytes in C's order, or its length does not fit its shape.
        """
        try:
            _, shape, dtype, is_fortran, content = self._state
            if dtype.name != b"u1" or is_fortran:
                raise DataError("an array is not one of bytes in C's order")
            return np.frombuffer(content, np.uint8).reshape(shape)
        except (AttributeError, TypeError, ValueError) as error:
            raise DataError(f"an array is damaged ({error})") from error


class _PickledType:
    """Stands for a numpy dtype in a pickle."""

    def __init__(self, name: bytes, *unused: object) -> None:
        self.name = name

    def __setstate__(self, state: object) -> None:
        """Ignores the byte order: one byte has none."""


STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): PickledArray,
    ("numpy", "ndarray"): PickledArray,
    ("numpy", "dtype"): _PickledType,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in STAND_INS:
            raise DataError(f"it names {module}.{name}, which is neither an array nor a plain container")
        return STAND_INS[module, name]


def unpickle(content: bytes) -> Any:
    """What `content` holds: numbers, texts as bytes, lists, tuples, dicts, and arrays as `PickledArray`.

    Raises:
        DataError: it is no pickle, or one that names anything else.
    """
    try:
        return _Unpickler(BytesIO(content), encoding="bytes").load()
    except DataError:
        raise
    except Exception as error:  # a damaged pickle may raise any exception
        raise DataError(f"not a readable pickle ({error})") from error
