"""Imports Lightning, then records malloc's thresholds. A script that imports Lightning has the same thresholds.

The Lightning engine restores them before it measures a cell.
"""

# isort: off
from accelbench.engines.lightning import light_import  # noqa: F401  # before Lightning

import pytorch_lightning  # noqa: F401

from accelbench.devices import malloc_thresholds

malloc_thresholds.note()
