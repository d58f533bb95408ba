import os
import sys

os.environ.update({"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""})
sys.modules["sklearn"] = None  # Keras imports it for wrappers that no cell has, which takes a second

import pytest  # noqa: E402

from engines.keras.cells import elsewhere  # noqa: E402
from engines.keras.twins import pytorch_side  # noqa: E402


@pytest.fixture(scope="session")
def twins(digits):
    """What the Lightning engine's networks gave, by name."""
    return elsewhere(pytorch_side, digits)
