"""Marks that several test modules have."""

from functools import partial

import pytest

# A case that takes long, and resembles others of its test.
slow = partial(pytest.param, marks=pytest.mark.slow)
# Lightning's own warnings, on its use of torch.
IGNORES_LIGHTNINGS_WARNINGS = pytest.mark.filterwarnings(
    "ignore:.*isinstance.treespec, LeafSpec.*:DeprecationWarning", "ignore:.*LeafSpec.*:FutureWarning"
)
