"""Imports torch, and notes malloc's thresholds as a script has them that imports nothing else."""

import torch  # noqa: F401

from accelbench.devices import malloc_thresholds

malloc_thresholds.note()
