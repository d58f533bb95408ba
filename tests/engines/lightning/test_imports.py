"""What the host of Lightning's cells imports, in processes of their own."""

import importlib.util
import subprocess
import sys

import pytest

from accelbench.engines.registry import LIGHT_IMPORT, host_spec
from accelbench.schema.vocab import Engine
from fakes import make_cell

CODE = f"""
import sys, {LIGHT_IMPORT}, accelbench.engines.lightning.engine
print([name for name in ('torchvision', 'transformers', 'scipy.signal') if name in sys.modules])
import numpy  # user code may use the names that torchmetrics' `__init__` adds
assert numpy.Inf == numpy.inf
import torchmetrics, torchvision.models, transformers, scipy.signal
from pytorch_lightning.trainer.connectors.logger_connector import result
from torchmetrics import Accuracy
from torchmetrics.text import Perplexity
assert issubclass(Accuracy, result.Metric) and issubclass(Perplexity, torchmetrics.Metric)
assert torchmetrics.functional.accuracy and torchmetrics.__version__
"""


PRINTS = """
import importlib
import sys

for name in sys.argv[1:]:
    importlib.import_module(name)

from accelbench.devices import allocators

if not allocators._noted:
    allocators.note_thresholds()
print(allocators._noted)
"""


def thresholds_after(*names):
    command = [sys.executable, "-c", PRINTS, *names]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def test_a_cell_of_lightning_begins_with_the_malloc_thresholds_of_a_script_that_imports_lightning():
    of_script = thresholds_after("torch", "pytorch_lightning")
    assert thresholds_after(*host_spec(make_cell(engine=Engine.lightning)).preload) == of_script


@pytest.mark.slow
def test_lightning_is_imported_without_it_and_code_that_needs_it_works():
    if missing := [name for name in ("transformers", "scipy") if importlib.util.find_spec(name) is None]:
        pytest.skip(f"not installed: {missing}")  # the wheel does not depend on it
    command = [sys.executable, "-W", "ignore", "-c", CODE]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines() == ["[]"]
