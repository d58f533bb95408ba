"""Imports torch, then records malloc's thresholds. They are the thresholds of a script that imports only torch.

The PyTorch engine restores these thresholds before it measures a cell.
"""

import torch  # noqa: F401

from accelbench.devices import malloc_thresholds

malloc_thresholds.note()
