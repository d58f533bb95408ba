import os
import subprocess
import sys

import pytest

from accelbench.devices import allocators
from accelbench.devices.allocators import Running
from accelbench.schema.cell import Allocator

TELL = "from accelbench.devices.allocators import running; ran = running(); print(ran.word, ran.library, sep='|')"


def installed(allocator):
    missing = allocators.why_missing(allocator)
    return pytest.param(allocator, marks=pytest.mark.skipif(missing is not None, reason=str(missing)))


def ran(variables):
    plain = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "GLIBC_TUNABLES")}
    env = {**plain, **variables, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", TELL], env=env, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return Running(*done.stdout.strip().split("|"))


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
def test_without_variables_glibc_gives_memory_and_maps_large_blocks_by_themselves(monkeypatch):
    assert allocators.environment(Allocator.default, {"LD_PRELOAD": "libmine.so"}) == {}
    assert ran({}).word == "glibc"
    monkeypatch.setenv("GLIBC_TUNABLES", allocators.REUSE)  # too late for this process
    assert allocators.running().word == "glibc"
    reuse = allocators.environment(Allocator.glibc_reuse, {"GLIBC_TUNABLES": "glibc.malloc.check=0"})
    assert reuse["GLIBC_TUNABLES"].startswith("glibc.malloc.check=0:")


@pytest.mark.parametrize("allocator", [installed(word) for word in Allocator if word != Allocator.default])
def test_a_new_process_has_the_wanted_allocator_and_what_the_user_preloads_stays(allocator):
    variables = allocators.environment(allocator, {"LD_PRELOAD": "libm.so.6"})
    assert allocator == Allocator.glibc_reuse or variables["LD_PRELOAD"].endswith(":libm.so.6")
    running = ran(variables)
    assert running.word == allocator
    assert ".so." in running.library


LEARNS = """
import ctypes
from accelbench.devices.allocators import note_thresholds, restore_thresholds, threshold_values
from accelbench.measuring.checks import Observations

library = ctypes.CDLL("libc.so.6")
library.malloc.restype, library.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def learn(mib):
    library.free(library.malloc(ctypes.c_size_t(mib << 20)))

def learnt(mib):
    learn(mib)
    return threshold_values()

learn(1)
note_thresholds()
noted = threshold_values()
assert noted[1] >= 1 << 20 and noted[0] == 2 * noted[1], noted
assert learnt(8)[1] >= 8 << 20
restore_thresholds()
assert threshold_values() == noted
before = learnt(4)  # it goes on learning
assert 4 << 20 <= before[1] < 8 << 20, before
with Observations().checking():  # the check of a cell teaches it nothing
    learnt_in_check = learnt(16)
assert learnt_in_check != before == threshold_values()
"""


def test_malloc_learns_on_from_the_thresholds_that_were_restored():
    subprocess.run([sys.executable, "-c", LEARNS], check=True)
