"""Finds installed memory allocators, selects one for a new process, and detects the allocator of this process.

Also restores two thresholds of glibc's malloc. One decides which blocks malloc maps separately. The other decides when
the heap returns memory to the system. malloc changes them when a process frees large blocks, and a forked process
inherits them. If the parent has imported many libraries, the forked process has half as many page faults as a script
that imports only torch, and would be faster than this script. Therefore cells begin with the thresholds of the script.
"""

import contextlib
import ctypes
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from accelbench.schema.cell import Allocator
from accelbench.schema.serialize import sha256_of

# Allocator -> the file names of its library, the preferred one first; and Debian's package.
LIBRARIES = {
    Allocator.jemalloc: (("libjemalloc.so.2",), "libjemalloc2"),
    Allocator.tcmalloc: (("libtcmalloc_minimal.so.4", "libtcmalloc.so.4"), "libtcmalloc-minimal4"),
}
# Beginning of the name of a library's file -> the allocator in it.
WORDS = {
    "libjemalloc": "jemalloc",
    "libtcmalloc": "tcmalloc",
    "libmimalloc": "mimalloc",
    "libc.so": "glibc",
    "libc-": "glibc",
}
# No block is mapped by itself, and the heap is not trimmed. So a step gets the memory that the last step freed, without
# page faults.
REUSE = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1099511627776:glibc.malloc.top_pad=67108864"
# Bytes of a block that glibc maps separately, unless a threshold has its maximum of 32 MiB.
LARGE = (32 << 20) - 8192
_thresholds: list[ctypes.c_size_t] = []  # the two thresholds in the memory of glibc
_noted: list[int] = []


class Running(NamedTuple):
    """The memory allocator of this process."""

    word: str  # a word of `Allocator`, `mimalloc` or `glibc`
    library: str  # name of the library's file


@cache
def library(allocator: Allocator) -> Path | None:
    """Returns the file of the allocator's library. Returns None if it isn't installed or is a part of glibc."""
    names, _ = LIBRARIES.get(allocator, ((), ""))
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    folders += [f"{sys.prefix}/lib", "/usr/local/lib", f"/usr/lib/{platform.machine()}-linux-gnu"]
    folders += ["/usr/lib64", "/usr/lib"]
    for name in names:
        for folder in filter(None, folders):
            path = Path(folder, name)
            if path.is_file():
                return path
    return None


checksum = cache(sha256_of)  # of a library's file


def why_missing(allocator: Allocator) -> str | None:
    """Returns the reason why a process on this machine can't use the allocator, or None if it can."""
    if allocator not in LIBRARIES or library(allocator) is not None:
        return None
    names, package = LIBRARIES[allocator]
    return f"allocator={allocator}: {names[0]} is not installed: install it (on Debian, {package})"


def environment(allocator: Allocator, variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns environment variables that make a new process use the allocator.

    If `variables` already sets one of them, the result keeps this value and adds to it.
    """
    if allocator == Allocator.glibc_reuse:  # if a tunable has two values, glibc uses the later one
        return {"GLIBC_TUNABLES": ":".join(filter(None, [variables.get("GLIBC_TUNABLES"), REUSE]))}
    path = library(allocator)  # if two libraries have a function, the first one's is used
    return (
        {}
        if path is None
        else {"LD_PRELOAD": ":".join(filter(None, [str(path), variables.get("LD_PRELOAD")]))}
    )


def running() -> Running | None:
    """Returns the memory allocator of this process, or None if unknown.

    An environment variable, with which the process was started, selects an allocator. Its library must be loaded.
    """
    variables, maps = (Path("/proc/self", name).read_text(errors="replace") for name in ("environ", "maps"))
    files = {os.path.basename(line.split()[-1]) for line in maps.splitlines()}
    for beginning, word in WORDS.items():
        for file in sorted(files):
            if file.startswith(beginning) and (word == "glibc" or beginning in variables):
                # glibc replaces the colons between tunables.
                is_reuse = word == "glibc" and all(tunable in variables for tunable in REUSE.split(":"))
                return Running(Allocator.glibc_reuse.value if is_reuse else word, file)
    return None


def note_thresholds() -> None:
    """Stores the present thresholds of malloc for `restore_thresholds`. Does nothing without glibc."""
    if not _thresholds:
        _find_thresholds()
    _noted[:] = threshold_values()


def restore_thresholds() -> None:
    """Sets the thresholds to the values that `note_thresholds` has stored. Later, malloc may change them again."""
    _set_thresholds(_noted)


@contextlib.contextmanager
def thresholds_kept() -> Iterator[None]:
    """A context. At its end, it restores the thresholds of its beginning."""
    values = threshold_values()
    try:
        yield
    finally:
        _set_thresholds(values)


def threshold_values() -> list[int]:
    """Returns the present thresholds, in bytes."""
    return [threshold.value for threshold in _thresholds]


def _set_thresholds(values: list[int]) -> None:
    for threshold, value in zip(_thresholds, values, strict=True):
        threshold.value = value


def _find_thresholds() -> None:
    """Frees a large block, sees which numbers in the C library's data have changed to its size, and undoes this."""
    # glibc has no function that reads the thresholds. It has them in `struct malloc_par` (malloc.c), in this order:
    # trim_threshold, which becomes twice the size of the freed block, top_pad, and mmap_threshold, which becomes its
    # size.
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "libc.so.6" in line and " rw-p " in line:
            start, end = (int(address, 16) for address in line.split()[0].split("-"))
            numbers = (ctypes.c_size_t * ((end - start) // 8)).from_address(start)
            before = numbers[:]
            library = ctypes.CDLL("libc.so.6")
            library.malloc.restype = ctypes.c_void_p
            library.free(ctypes.c_void_p(library.malloc(ctypes.c_size_t(LARGE))))
            for place, old in enumerate(before[:-2]):
                if old != numbers[place] == 2 * numbers[place + 2] > LARGE:
                    places = [ctypes.c_size_t.from_address(start + 8 * index) for index in (place, place + 2)]
                    _thresholds.extend(places)
                    _set_thresholds([old, before[place + 2]])
                    return
