"""What the host of Lightning's cells imports, in processes of their own."""

import subprocess
import sys

from accelbench.engines.lightning.spec import host_spec
from accelbench.schema.vocab import Engine
from fakes import make_cell

PRINTS = """
import importlib
import sys

for name in sys.argv[1:]:
    importlib.import_module(name)

from accelbench.devices import malloc_thresholds

if not malloc_thresholds._noted:
    malloc_thresholds.note()
print(malloc_thresholds._noted)
"""


def thresholds_after(*names):
    command = [sys.executable, "-c", PRINTS, *names]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def test_a_cell_of_lightning_begins_with_the_malloc_thresholds_of_a_script_that_imports_lightning():
    of_script = thresholds_after("torch", "pytorch_lightning")
    assert thresholds_after(*host_spec(make_cell(engine=Engine.lightning)).preload) == of_script
