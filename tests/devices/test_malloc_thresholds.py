"""What malloc has learnt is read and set in a real process, whose blocks are large enough to teach it."""

import subprocess
import sys

LEARNS = """
import ctypes
from accelbench.devices import malloc_thresholds as thresholds

library = ctypes.CDLL("libc.so.6")
library.malloc.restype, library.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def learn(size):
    library.free(library.malloc(ctypes.c_size_t(size)))

def now():
    return [ctypes.c_size_t.from_address(place).value for place in thresholds._places]

learn(1 << 20)
thresholds.note()
noted = now()
learn(8 << 20)
learnt = now()
thresholds.restore()
assert noted[1] >= 1 << 20 and noted[0] == 2 * noted[1], noted
assert learnt[1] >= 8 << 20, learnt
assert now() == noted
learn(4 << 20)
assert 4 << 20 <= now()[1] < 8 << 20, now()  # it goes on learning
before = now()
with thresholds.kept():
    learn(16 << 20)
    assert now() != before
assert now() == before
"""


def test_malloc_learns_on_from_the_thresholds_that_were_restored():
    subprocess.run([sys.executable, "-c", LEARNS], check=True)
