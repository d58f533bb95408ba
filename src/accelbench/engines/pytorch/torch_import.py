"""Imports torch, then records malloc's thresholds. A script that imports only torch has the same thresholds.

The PyTorch engine restores these thresholds before it measures a cell.
"""

import torch  # noqa: F401

from accelbench.devices import malloc_thresholds

malloc_thresholds.note()
