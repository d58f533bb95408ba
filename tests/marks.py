"""Marks that several test modules have."""

import pytest

# Lightning's own warnings, on its use of torch.
IGNORES_LIGHTNINGS_WARNINGS = pytest.mark.filterwarnings(
    "ignore:.*isinstance.treespec, LeafSpec.*:DeprecationWarning", "ignore:.*LeafSpec.*:FutureWarning"
)
