"""TensorFlow and PyTorch never share a process: each brings a copy of what the other one needs."""

import sys

import pytest

BOTH = {"torch", "tensorflow"}
REASON = (
    "torch and tensorflow are in one process: tests/engines/keras needs a pytest of its own, as `make test` runs it"
)


def pytest_collection_finish(session):
    if sys.modules.keys() >= BOTH:
        raise pytest.UsageError(REASON)


@pytest.fixture(autouse=True)
def _one_framework():
    yield
    assert not sys.modules.keys() >= BOTH, REASON
