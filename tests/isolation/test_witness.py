"""The host's own clock and view of a process."""

import os
import subprocess
import sys
import time

import pytest

from accelbench.isolation.witness import Witness
from accelbench.measuring.witness import Moment

BINDS = """
import os, sys, threading, time
waits = threading.Thread(target=time.sleep, args=(30,), daemon=True)
waits.start()
print(flush=True)
sys.stdin.readline()
if {bound}:
    os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
print(flush=True)
sys.stdin.readline()
"""


def test_the_time_of_sections_is_that_of_the_hosts_clock():
    witness = Witness(os.getpid())
    for _ in range(2):
        witness.hear(Moment.begin)
        time.sleep(0.05)
        witness.hear(Moment.end)
    time.sleep(0.05)
    seen = witness.witnessed()
    assert seen.num_sections == 2
    assert 0.1 <= seen.timed_s < 5
    assert seen.num_cores == seen.num_allowed_cores == len(os.sched_getaffinity(0))


def test_an_end_without_a_begin_and_other_words_count_as_nothing():
    witness = Witness(os.getpid())
    for word in (Moment.end, "", "nonsense", Moment.begin):
        witness.hear(word)
    assert (witness.witnessed().num_sections, witness.witnessed().timed_s) == (0, 0.0)


def test_a_host_that_woke_up_late_says_so():
    witness = Witness(os.getpid())
    witness.woke_late(0.001)
    witness.woke_late(3.0)
    assert witness.witnessed().late_s == 3.0


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.parametrize("bound", [False, True])
def test_a_process_that_binds_itself_to_a_core_is_seen_whatever_threads_wait_in_it(bound):
    command = [sys.executable, "-c", BINDS.format(bound=bound)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        witness = Witness(process.pid)
        process.stdout.readline()
        witness.hear(Moment.ready)
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        witness.hear(Moment.begin)
        witness.hear(Moment.end)
        process.kill()
    seen = witness.witnessed()
    assert seen.num_cores == (1 if bound else seen.num_allowed_cores)
