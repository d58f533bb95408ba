"""Applies a function to many items with several processes."""

import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from accelbench.errors import UserError
from accelbench.lifeline import end_with_parent

Item = TypeVar("Item")
Result = TypeVar("Result")

NUM_ALONE = 500  # items that this process does itself: so few take no longer than the start of processes may
CHUNK = 50  # items that are sent together
MAX_PROCESSES = 4  # more would wait for this process, which takes in what they send

_served: list[Any] = []  # in another process: the function that it applies, and all items


def mapped(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """As `map`; of many items, other processes compute the results, ahead. Raises UserError: one of them was killed."""
    # They are copies of this process, on Linux only. Results are pickled.
    every = list(items)
    num = min(MAX_PROCESSES, len(os.sched_getaffinity(0))) if sys.platform == "linux" else 1
    if num == 1 or len(every) <= NUM_ALONE:
        yield from map(function, every)
        return
    import multiprocessing as mp  # here: it would delay every help text
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    context = mp.get_context("fork")  # any other method imports the user's script again
    pool = ProcessPoolExecutor(num, context, initializer=_begin, initargs=(function, every))
    try:
        with warnings.catch_warnings():
            # Of threads, numpy's for example: the copy uses no lock that one of them may hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            results = pool.map(_apply, range(len(every)), chunksize=CHUNK)
        yield from results
    except BrokenProcessPool as error:
        raise UserError("a process that read records was killed: is the memory full? Run it again") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(function: Callable[[Any], Any], items: list[Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the reader gets it too, and ends this process
    end_with_parent()
    gc.freeze()  # what was copied is the reader's: nothing of it may be finalised here
    _served[:] = function, items


def _apply(place: int) -> Any:
    function, items = _served
    return function(items[place])
