"""Marks that several test modules have."""

import pytest

# Lightning's own warnings: on its use of torch, and on machines where Slurm is installed.
IGNORES_LIGHTNINGS_WARNINGS = pytest.mark.filterwarnings(
    "ignore:.*isinstance.treespec, LeafSpec.*:DeprecationWarning",
    "ignore:.*LeafSpec.*:FutureWarning",
    "ignore:The `srun` command is available on your system but is not used",
)
