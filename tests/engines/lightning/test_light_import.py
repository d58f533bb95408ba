"""Lightning is imported without the optional imports of torchmetrics, but user code can still use them."""

import importlib.util
import subprocess
import sys

import pytest

from accelbench.engines.lightning.spec import LIGHTNING_IMPORT

CODE = f"""
import sys, {LIGHTNING_IMPORT}, accelbench.engines.lightning.engine
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


@pytest.mark.slow
def test_lightning_is_imported_without_it_and_code_that_needs_it_works():
    if missing := [name for name in ("transformers", "scipy") if importlib.util.find_spec(name) is None]:
        pytest.skip(f"not installed: {missing}")  # the wheel does not depend on it
    command = [sys.executable, "-W", "ignore", "-c", CODE]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines() == ["[]"]
