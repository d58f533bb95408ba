"""Reads and restores two thresholds of glibc's malloc. malloc changes them when a process frees large blocks.

One threshold decides which blocks malloc maps separately. The other decides when the heap returns memory to the system.
A forked process inherits the thresholds of its parent. If the parent has imported many libraries, the forked process
has half as many page faults as a script that imports only torch, and would be faster than this script. Therefore this
module restores earlier thresholds.

glibc has no function that reads the thresholds. `mallopt` sets them, but then malloc no longer changes them. So only a
short-lived child process calls `mallopt`. It compares the data of the C library before and after the call, and so finds
the addresses of the thresholds (`struct malloc_par` in glibc's malloc.c).
"""

import contextlib
import ctypes
import os
import struct
import warnings
from collections.abc import Iterator, Sequence

# M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h.
OPTIONS = (-1, -3)
UNLIKELY = 0x123450  # bytes: a threshold that no program sets
_places: list[int] = []  # addresses of the thresholds in this process
_noted: list[int] = []


def note() -> None:
    """Stores the present thresholds for `restore`. Does nothing without glibc."""
    with contextlib.suppress(OSError):  # no process could be started
        _places[:] = _places or _addresses()
    _noted[:] = _values()


def restore() -> None:
    """Sets the thresholds to the values that `note` has stored. Later, malloc may change them again."""
    _set(_noted)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """A context. At its end, it restores the thresholds of its beginning. Does nothing if `note` never ran."""
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


def _addresses() -> list[int]:
    """Returns the addresses of the thresholds, in the order of `OPTIONS`. The list is empty if one wasn't found."""
    data = _data_of_library()
    if data is None:
        return []
    read, write = os.pipe()
    with warnings.catch_warnings():
        # The child takes no lock that a thread may hold, so the warning does not apply.
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
    """Returns the address at which `mallopt` stores an option. Returns 0 unless exactly one address changes."""
    before = ctypes.string_at(start, size)
    ctypes.CDLL("libc.so.6").mallopt(option, UNLIKELY)
    words = zip(struct.iter_unpack("N", before), struct.iter_unpack("N", ctypes.string_at(start, size)), strict=True)
    places = [index for index, (old, new) in enumerate(words) if old != new and new == (UNLIKELY,)]
    return start + struct.calcsize("N") * places[0] if len(places) == 1 else 0


def _data_of_library() -> tuple[int, int] | None:
    """Returns the address and the size of the C library's writable data. Returns None without glibc."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            if "libc.so.6" in line and " rw-p " in line:
                start, end = (int(address, 16) for address in line.split()[0].split("-"))
                return start, end - start
    return None
