"""Applies a function to many items with several processes."""

import gc
import multiprocessing as mp
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

NUM_FIRST = 250  # items that this process does itself, before it looks how many more there are
MANY = 1000  # fewer further items take no longer than the start of processes may
CHUNK = 50  # items that are sent together
MAX_PROCESSES = 4  # more would wait for this process, which takes in what they send


def mapped(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """As `map`; if there are many items, other processes call the function, ahead of what is taken from the iterator.

    They are copies of this process, on Linux only. Should one of them fail, this process calls the function itself.
    The function may be called twice for an item; its results are pickled. The first items are taken one at a time.
    """
    rest = iter(items)
    yield from map(function, islice(rest, NUM_FIRST))
    others = list(rest)
    num = min(MAX_PROCESSES, len(os.sched_getaffinity(0))) if sys.platform == "linux" else 1
    yield from _shared(function, others, num) if num > 1 and len(others) >= MANY else map(function, others)


def _shared(function: Callable[[Item], Result], items: Sequence[Item], num: int) -> Iterator[Result]:
    chunks = [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]
    started = [_start(function, chunks[index::num]) for index in range(num)]
    try:
        for index, chunk in enumerate(chunks):
            try:
                results: Iterable[Result] = started[index % num][1].recv()
            except (OSError, EOFError):  # the process has ended, perhaps killed
                results = map(function, chunk)
            yield from results
    finally:
        for process, answers in started:
            answers.close()
            process.kill()
            process.join()
            process.close()


def _start(function: Callable[[Item], Result], chunks: Sequence[Sequence[Item]]) -> tuple[BaseProcess, Connection]:
    context = mp.get_context("fork")  # any other method imports the user's script again
    answers, sender = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(sender, function, chunks), daemon=True)
    with sender, warnings.catch_warnings():
        # Since Python 3.12 of threads, numpy's for example: the copy uses no lock that one of them may hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    return process, answers


def _serve(sender: Connection, function: Callable[[Item], Result], chunks: Sequence[Sequence[Item]]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the reader gets it too, and ends this process
    gc.freeze()  # what was copied is the reader's: nothing of it may be finalised here
    try:
        for chunk in chunks:
            sender.send([function(item) for item in chunk])
    except Exception:  # the reader has gone; or the function fails, then the reader calls it too and gets its error
        return
