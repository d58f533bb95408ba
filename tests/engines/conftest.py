import sys

import numpy as np
import pytest

from accelbench.data.arrays import Arrays, Obtained, save_split
from accelbench.data.prepare import describe


@pytest.fixture(autouse=True)
def no_hooks_are_left():
    """Removes hooks that refused cells leave on all modules. Outside of tests, each cell has its own process."""
    yield
    if (module := sys.modules.get("torch.nn.modules.module")) is not None:
        module._global_forward_hooks.clear()


@pytest.fixture
def state_as_before():
    import torch  # which Keras' tests do not

    from accelbench.engines.pytorch.precision import reset_settings, use_threads
    from accelbench.measuring.checks import THREAD

    def forget_device():
        vars(torch._GLOBAL_DEVICE_CONTEXT).clear()

    threads = torch.get_num_threads()
    yield
    use_threads(threads)
    torch.set_default_dtype(torch.float32)
    reset_settings(allow_tf32=False)
    # `get_default_device`, which transformers calls, fails after `torch.set_default_device(None)` in the same thread.
    forget_device()
    THREAD.submit(forget_device).result()


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """A small data set of 28x28 images that a network can learn: ten patterns with noise. 300 train, 90 test."""
    folder = tmp_path_factory.mktemp("digits")
    generator = np.random.default_rng(0)
    patterns = generator.integers(0, 2, (10, 28, 28)) * 160
    for split, num in (("train", 300), ("test", 90)):
        labels = np.arange(num) % 10
        images = patterns[labels] + generator.integers(0, 96, (num, 28, 28))
        save_split(folder, split, Arrays(images.astype(np.uint8), labels.astype(np.uint8)))
    describe(Obtained(classes=tuple("0123456789"), source="ten patterns under noise"), "mnist", folder)
    return folder
