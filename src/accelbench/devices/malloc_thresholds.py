"""The thresholds of glibc's malloc, which it learns from the blocks that a process frees.

They decide which blocks are mapped by themselves, and when the heap goes back to the system. A forked process inherits
what its parent learnt while it imported other libraries too, and then meets half as many page faults as a script that
imports only torch. glibc has no function to read them, and stops learning once `mallopt` sets them. So a process that
ends at once sets them, and sees which words of the library's data change (`struct malloc_par` of glibc's malloc.c).
"""

import contextlib
import ctypes
import os
import struct
import warnings
from collections.abc import Iterator, Sequence

# Of glibc's malloc.h: mallopt's names of the threshold for giving memory back, and of that for mapping a block.
OPTIONS = (-1, -3)
UNLIKELY = 0x123450  # bytes: nobody sets such a threshold
_places: list[int] = []  # addresses of the thresholds in this process
_noted: list[int] = []


def note() -> None:
    """Keeps the present thresholds for `restore`; does nothing without glibc."""
    with contextlib.suppress(OSError):  # no process could be started
        _places[:] = _places or _found()
    _noted[:] = _values()


def restore() -> None:
    """Sets the thresholds to those that were kept; malloc goes on learning from there."""
    _set(_noted)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """A context that leaves the thresholds as they were; does nothing before `note`."""
    values = _values()
    try:
        yield
    finally:
        _set(values)


def _values() -> list[int]:
    return [ctypes.c_size_t.from_address(place).value for place in _places]


def _set(values: Sequence[int]) -> None:
    for place, value in zip(_places, values, strict=True):
        ctypes.c_size_t.from_address(place).value = value


def _found() -> list[int]:
    """Their addresses, in the order of `OPTIONS`; none if they were not found."""
    data = _data_of_library()
    if data is None:
        return []
    read, write = os.pipe()
    with warnings.catch_warnings():
        # The child takes no lock that a thread may hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.write(write, struct.pack("2Q", *(_place_of(option, *data) for option in OPTIONS)))
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    places = list(struct.unpack("2Q", answer)) if answer else [0]
    return places if all(places) else []


def _place_of(option: int, start: int, size: int) -> int:
    """Where `mallopt` keeps an option in the library's data; 0 if that is not one place."""
    before = ctypes.string_at(start, size)
    ctypes.CDLL("libc.so.6").mallopt(option, UNLIKELY)
    words = zip(struct.iter_unpack("N", before), struct.iter_unpack("N", ctypes.string_at(start, size)), strict=True)
    places = [index for index, (old, new) in enumerate(words) if old != new and new == (UNLIKELY,)]
    return start + struct.calcsize("N") * places[0] if len(places) == 1 else 0


def _data_of_library() -> tuple[int, int] | None:
    """The address and the size of the C library's writable data; None if it is not glibc."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            if "libc.so.6" in line and " rw-p " in line:
                start, end = (int(address, 16) for address in line.split()[0].split("-"))
                return start, end - start
    return None
