"""Marks that several test modules have."""

from functools import partial

import pytest

# A case that takes long, and resembles others of its test.
slow = partial(pytest.param, marks=pytest.mark.slow)
