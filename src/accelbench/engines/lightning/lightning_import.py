"""Imports Lightning, then records malloc's thresholds (see `devices.allocators`).

These are the thresholds in a script that imports Lightning. The Lightning engine restores them before it measures a
cell, so that a cell has as many page faults as such a script.
"""

# isort: off
from accelbench.engines.lightning import light_import  # noqa: F401  # before Lightning

import pytorch_lightning  # noqa: F401

from accelbench.devices import allocators

allocators.note_thresholds()
