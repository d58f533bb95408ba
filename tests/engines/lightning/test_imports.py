"""What the host of Lightning's cells imports, in processes of their own."""

import importlib.util

import pytest

from accelbench.engines.registry import LIGHT_IMPORT, host_spec
from accelbench.schema.cell import Engine
from engines.cells import printed
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
import importlib, sys

for name in sys.argv[1:]:
    importlib.import_module(name)
from accelbench.devices import allocators
if not allocators._noted:
    allocators.note_thresholds()
print(allocators._noted)
"""


def test_a_cell_of_lightning_begins_with_the_malloc_thresholds_of_a_script_that_imports_lightning():
    of_script = printed(PRINTS, "torch", "pytorch_lightning")
    assert printed(PRINTS, *host_spec(make_cell(engine=Engine.lightning)).preload) == of_script


@pytest.mark.slow
def test_lightning_is_imported_without_it_and_code_that_needs_it_works():
    if missing := [name for name in ("transformers", "scipy") if importlib.util.find_spec(name) is None]:
        pytest.skip(f"not installed: {missing}")  # the wheel does not depend on it
    assert printed(CODE, PYTHONWARNINGS="ignore") == ["[]"]
