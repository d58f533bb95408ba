"""The process that issues requests when they are due, however long answers take (open loop).

It is run as a file of its own, by the standard library alone, so that it starts in some milliseconds and the package's
own imports can't make it wake up late. A byte on the pipe that the second argument numbers is a request.
"""

import contextlib
import ctypes
import gc
import mmap
import os
import signal
import sys
import time

PR_SET_PDEATHSIG, PR_SET_TIMERSLACK = 1, 29  # <linux/prctl.h>
READY = b"r"
MAX_TOGETHER = 4096  # requests that are issued by one write, so that the first of them does not wait for long


def main() -> None:
    """Issues the requests of the file that the first argument numbers: int64, when they are due, and three rows more.

    The times are nanoseconds of CLOCK_MONOTONIC; the file has the former once standard input has a line, and gets when
    each request was issued in the second row.
    """
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the server, which ends this process
    prctl(PR_SET_TIMERSLACK, 1)  # else the kernel may wake it 50 us late
    with contextlib.suppress(OSError):  # it works for some microseconds a request, when these are due
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    times = memoryview(mmap.mmap(int(sys.argv[1]), 0)).cast("q")
    gc.disable()
    out = int(sys.argv[2])
    os.write(out, READY)
    if sys.stdin.readline():  # else the server has ended
        _issue(times, out)


def _issue(times: memoryview, out: int) -> None:
    now = time.monotonic_ns
    num = len(times) // 4
    begin = 0
    while begin < num:
        while (left_ns := times[begin] - now()) > 0:
            time.sleep(left_ns / 1e9)
        end, issued_ns = begin, now()
        while end < num and end - begin < MAX_TOGETHER and times[end] <= issued_ns:
            times[num + end] = issued_ns
            end += 1
        os.write(out, bytes(end - begin))
        begin = end


if __name__ == "__main__":
    main()
