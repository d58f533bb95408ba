"""Imports torch, then records malloc's thresholds, as in a script that only imports torch.

The engine restores these thresholds before it measures a cell.
"""

import torch  # noqa: F401

from accelbench.devices import malloc_thresholds

malloc_thresholds.note()
