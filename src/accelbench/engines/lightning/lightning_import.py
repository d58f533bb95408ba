"""Imports Lightning, then records malloc's thresholds. They are the same as in a script that imports Lightning.

The Lightning engine restores these thresholds before it measures a cell.
"""

# isort: off
from accelbench.engines.lightning import light_import  # noqa: F401  # before Lightning

import pytorch_lightning  # noqa: F401

from accelbench.devices import malloc_thresholds

malloc_thresholds.note()
