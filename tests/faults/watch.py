"""Watches a reader: what it may raise, open, start and import, how long it may take and how much memory."""

import contextlib
import functools
import os
import resource
import signal
import sys
import sysconfig
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis.strategies import SearchStrategy

from accelbench.errors import UserError
from faults.mutations import NUM_MUTATIONS, many

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
        self.packages: set[str] = set()
        self.seen: list[str] = []
        sys.addaudithook(self)

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.folder:
            return
        if event == "open":
            self._opened(*args)
        elif event == "import" and args[0].partition(".")[0] not in self.packages:
            self.seen.append(f"import of {args[0]}")
        elif event in CHANGES and not self._is_inside(args[0]):
            self.seen.append(f"{event} {args}")
        elif event.startswith(FORBIDDEN):
            self.seen.append(f"{event} {args}"[:200])

    def _opened(self, path: Any, mode: str | None, flags: int) -> None:
        if isinstance(path, int) or self._is_inside(path):
            return
        if flags & WRITES or not os.path.abspath(os.fsdecode(path)).startswith(OF_PYTHON):
            self.seen.append(f"open {path!r} {mode} {flags:#x}"[:200])

    def _is_inside(self, path: Any) -> bool:
        whole = os.path.abspath(os.fsdecode(path))
        return whole == self.folder or whole.startswith(self.folder + os.sep)


HOOK = _Hook()


@functools.lru_cache(maxsize=1)
def _packages(num_modules: int) -> set[str]:
    """Those that are imported already, and Python's own; cached as long as `num_modules` are."""
    return {name.partition(".")[0] for name in sys.modules} | sys.stdlib_module_names - {"antigravity"}


@contextlib.contextmanager
def watched(folder: Path) -> Iterator[None]:
    """Asserts that the block opens, changes and imports nothing but files below `folder` and Python's own."""
    HOOK.seen.clear()
    HOOK.packages = _packages(len(sys.modules))
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


class HangError(BaseException):
    """A reader computes without an end. No reader catches it."""


def _hang(*_: object) -> None:
    raise HangError


@contextlib.contextmanager
def bounded_time(seconds: float = 4 * MAX_S) -> Iterator[None]:
    """Raises a HangError after `seconds` of computing. pytest-timeout, which uses the other clock, ends what waits."""
    before = signal.signal(signal.SIGPROF, _hang)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class Reader:
    """Reads mutated files and counts the outcomes; `folder` has the files that may be opened."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.outcomes: Counter[str] = Counter()

    def __call__(self, read: Callable[[], object]) -> None:
        """Calls `read`, which may refuse with a UserError. It may do nothing else, nor take over `MAX_S`."""
        started_s = time.process_time()  # the wall's clock counts other processes too
        refusal = None
        try:
            with watched(self.folder), bounded_time():
                read()
        except UserError as error:
            refusal = str(error)
        except RecursionError as error:  # its chain of causes is too long for Hypothesis
            where = traceback.extract_tb(error.__traceback__)
            ours = [frame for frame in where if "accelbench" in frame.filename] or where
            raise AssertionError(f"RecursionError in {ours[-1].filename}:{ours[-1].lineno}") from None
        took_s = time.process_time() - started_s
        assert took_s <= MAX_S, f"took {took_s:.1f} s"
        self.outcomes["read" if refusal is None else "refused"] += 1
        assert refusal is None or refusal.strip(), "an empty message"

    def try_all(
        self, strategy: SearchStrategy, of: Callable[..., Callable[[], object]], *, refuses: bool = True
    ) -> None:
        """Reads 10,000 mutations in a bounded memory: `of` writes one and returns what reads it.

        Asserts that the mutations tried both outcomes, if the reader refuses some.
        """

        @many
        @given(strategy)
        def check(mutation: Any) -> None:
            self(of(mutation))

        with bounded_memory():
            check()
        print(f"{self.name}: {self.outcomes.total():,} mutations, {dict(self.outcomes)}")
        assert self.outcomes.total() >= NUM_MUTATIONS
        tried = (self.outcomes["read"], self.outcomes["refused"]) if refuses else (self.outcomes["read"],)
        assert min(tried) >= MIN_SHARE * NUM_MUTATIONS, self.outcomes
