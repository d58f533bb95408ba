"""Watches what reads mutated files: what it may raise, open, start and import, how long, and with how much memory."""

import contextlib
import os
import resource
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from accelbench.errors import UserError

NUM_MUTATIONS = int(os.environ.get("FAULTS_MUTATIONS", "10000"))
MAX_S = 2.0
MAX_BYTES = 512 << 20
MIN_SHARE = 0.01  # of the mutations that a reader must accept, and refuse: else they try nothing
OF_PYTHON = tuple({sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), str(Path(__file__).parents[2])})
FORBIDDEN = ("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.", "pickle.", "ctypes.dlopen")
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class _Hook:
    """Python's audit hook, which can't be removed: it does nothing unless `folder` is set."""

    def __init__(self) -> None:
        self.folder = ""
        self.seen: list[str] = []
        sys.addaudithook(self)

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if self.folder and self._is_wrong(event, args):
            self.seen.append(f"{event} {args}"[:200])

    def _is_wrong(self, event: str, args: tuple[Any, ...]) -> bool:
        if event == "import":
            package = args[0].partition(".")[0]
            return package == "antigravity" or package not in {*sys.modules} | sys.stdlib_module_names
        if event == "open":
            path, _, flags = args
            if isinstance(path, int) or self._is_inside(path):
                return False
            return bool(flags & WRITES) or not os.path.abspath(os.fsdecode(path)).startswith(OF_PYTHON)
        return event.startswith(FORBIDDEN) or (event in CHANGES and not self._is_inside(args[0]))

    def _is_inside(self, path: Any) -> bool:
        whole = os.path.abspath(os.fsdecode(path))
        return whole == self.folder or whole.startswith(self.folder + os.sep)


HOOK = _Hook()


@contextlib.contextmanager
def watched(folder: Path) -> Iterator[None]:
    """Asserts that the block opens, changes and imports nothing but files below `folder` and Python's own."""
    HOOK.seen.clear()
    HOOK.folder = os.path.abspath(folder)
    try:
        yield
    finally:
        HOOK.folder = ""
    assert not HOOK.seen, HOOK.seen


@contextlib.contextmanager
def bounded_memory(num_bytes: int = MAX_BYTES) -> Iterator[None]:
    """Lets the process take `num_bytes` of memory more; beyond that, it gets a MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def is_read(folder: Path, read: Callable[[], object]) -> bool:
    """Whether `read` reads what it finds. It may refuse that with a UserError, and take `MAX_S`."""
    started_s = time.process_time()  # the wall's clock counts other processes too
    refusal = None
    try:
        with watched(folder):
            read()
    except UserError as error:
        refusal = str(error)
    assert (took_s := time.process_time() - started_s) <= MAX_S, f"took {took_s:.1f} s"
    assert refusal is None or refusal.strip(), "an empty message"
    return refusal is None


def try_all(folder: Path, of: Callable[[Random], Callable[[], object]]) -> None:
    """Reads thousands of mutations in a bounded memory; only files in `folder` may be opened.

    `of` writes the mutation that it draws, and returns what reads it. That refuses some.
    """
    outcomes: Counter[bool] = Counter()
    with bounded_memory():
        for number in range(NUM_MUTATIONS):
            try:
                outcomes[is_read(folder, of(Random(number)))] += 1
            except BaseException as error:
                error.add_note(f"mutation {number}")
                raise
    print(f"{NUM_MUTATIONS:,} mutations, {outcomes[True]:,} read")
    assert min(outcomes[True], outcomes[False]) >= MIN_SHARE * NUM_MUTATIONS, outcomes
