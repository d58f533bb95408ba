"""Imports torch, then records malloc's thresholds: a script that imports only torch has the same thresholds."""

import torch  # noqa: F401

from accelbench.devices import malloc_thresholds

malloc_thresholds.note()
