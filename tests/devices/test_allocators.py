import os
import subprocess
import sys

import pytest

from accelbench.devices import allocators
from accelbench.devices.allocators import Running
from accelbench.schema.vocab import Allocator

LIBRARIES = list(allocators.LIBRARIES)
TELL = "from accelbench.devices.allocators import running; ran = running(); print(ran.word, ran.library, sep='|')"


def installed(allocator):
    missing = allocators.why_missing(allocator)
    return pytest.param(allocator, marks=pytest.mark.skipif(missing is not None, reason=str(missing)))


def ran(variables):
    """What a new process with these variables says that it has."""
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
from accelbench.devices import allocators

library = ctypes.CDLL("libc.so.6")
library.malloc.restype, library.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def learn(size):
    library.free(library.malloc(ctypes.c_size_t(size)))

learn(1 << 20)
allocators.note_thresholds()
noted = allocators.threshold_values()
learn(8 << 20)
learnt = allocators.threshold_values()
allocators.restore_thresholds()
assert noted[1] >= 1 << 20 and noted[0] == 2 * noted[1], noted
assert learnt[1] >= 8 << 20, learnt
assert allocators.threshold_values() == noted
learn(4 << 20)
assert 4 << 20 <= allocators.threshold_values()[1] < 8 << 20, allocators.threshold_values()  # it goes on learning
before = allocators.threshold_values()
with allocators.thresholds_kept():
    learn(16 << 20)
    assert allocators.threshold_values() != before
assert allocators.threshold_values() == before
"""


def test_malloc_learns_on_from_the_thresholds_that_were_restored():
    subprocess.run([sys.executable, "-c", LEARNS], check=True)
