"""The process that issues requests. It issues each request when it is due, without waiting for answers (open loop).

The process runs this file, which imports only the standard library. So it starts in some milliseconds, and no import of
accelbench can delay a request. For each issued request, the process writes one byte to a pipe. The pipe's file
descriptor is the second argument on the command line.
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
MAX_TOGETHER = 4096  # most requests that one write issues, so that the first of them does not wait for long


def main() -> None:
    """Issues requests at the times in a file in shared memory. The file's descriptor is the first argument.

    The file has two rows of int64: times in nanoseconds of CLOCK_MONOTONIC. The process reads the first row, which has
    the time when each request is due. This row is complete when a line arrives on standard input. Then the process
    begins to issue requests. It writes the time at which it issued each request into the second row.
    """
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the server; the server then ends this process
    prctl(PR_SET_TIMERSLACK, 1)  # otherwise the kernel may wake this process 50 us late
    # Makes this a real-time process, if the user may have one. The process works only some microseconds per request.
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    times = memoryview(mmap.mmap(int(sys.argv[1]), 0)).cast("q")
    gc.disable()
    out = int(sys.argv[2])
    os.write(out, READY)
    if sys.stdin.readline():  # empty if the server has ended
        _issue(times, out)


def _issue(times: memoryview, out: int) -> None:
    now = time.monotonic_ns
    num = len(times) // 2
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
