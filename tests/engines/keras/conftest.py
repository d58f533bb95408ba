import os
import sys

os.environ.update({"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""})
sys.modules["sklearn"] = None  # Keras would import it for wrappers that no cell uses; it takes 1 s

import pytest  # noqa: E402

from engines.keras.cells import elsewhere  # noqa: E402
from engines.keras.twins import pytorch_side  # noqa: E402


@pytest.fixture(scope="session")
def twins(digits):
    """Name -> results of the Lightning engine's networks (see twins.py)."""
    return elsewhere(pytorch_side, digits)
