import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from accelbench.isolation.processes import Witness
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


# Prints: its own child, what is below it before and after the end of the orphans, and the ids of these.
ADOPT = """
import json, os, subprocess, time
from accelbench.isolation.processes import children, descendants, end_orphans
from accelbench.lifeline import adopt_orphans
adopt_orphans()
own = subprocess.Popen(["sleep", "20"]).pid
subprocess.run(["sh", "-c", "setsid sleep 20 & setsid sh -c 'sleep 20 & sleep 20' & true"])
while len(before := descendants(os.getpid())) < 4:
    time.sleep(0.001)
end_orphans([own])
print(json.dumps([own, before, children(os.getpid())]))
os.kill(own, 9)
"""


def test_orphans_of_every_session_and_generation_end_and_the_own_child_stays():
    done = subprocess.run([sys.executable, "-c", ADOPT], capture_output=True, text=True, check=True)
    own, before, after = json.loads(done.stdout)
    assert own in before
    assert after == [own]
    assert not any(psutil.pid_exists(pid) for pid in before if pid != own)
