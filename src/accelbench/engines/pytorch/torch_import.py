"""Imports torch, then records malloc's thresholds (see `devices.allocators`).

These are the thresholds in a script that imports only torch. The PyTorch engine restores them before it measures a
cell, so that a cell has as many page faults as such a script.
"""

import torch  # noqa: F401

from accelbench.devices import allocators

allocators.note_thresholds()
