import json
import subprocess
import sys

import psutil

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
