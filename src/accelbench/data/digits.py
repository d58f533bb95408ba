"""The stand-in for MNIST: scikit-learn's digits, which are real handwriting, enlarged.

The 1,797 pictures of 8 x 8 pixels are the test part of E. Alpaydin and C. Kaynak, "Optical Recognition of
Handwritten Digits" (UCI Machine Learning Repository, 1998).
"""

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from accelbench.data.arrays import Arrays

NUM_IMAGES = {"train": 12_000, "test": 2_000}
TEST_SHARE = 0.2
SEED = 0
SOURCE = "scikit-learn's digits, 1,437 training and 360 test images of 8 x 8, enlarged, shifted and rotated"

SIDE = 28
# MNIST's digits fill a box of 20 x 20 pixels, centred by mass, in a picture of 28 x 28.
SCALE = 20 / 8
MAX_SHIFT_PIXELS = 1.5
MAX_ROTATION_DEGREES = 12.0
# The source's grey goes from 0 to 16. Values near an end are clipped, since interpolation causes ringing there.
BLACK, WHITE = 1.5, 13.5


def enlarged() -> dict[str, Arrays]:
    """The stand-in's splits: uint8, white on black, N x 28 x 28. Every call gives the same bytes."""
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8)
    rng = np.random.default_rng(SEED)
    splits = {}
    for split, sources in source_images(labels).items():
        chosen = _repeated(sources, NUM_IMAGES[split], rng)
        varied = np.stack([_vary(images[source], rng) for source in chosen])
        splits[split] = Arrays(images=varied, labels=labels[chosen].astype(np.uint8))
    return splits


def source_images(labels: NDArray[np.int_]) -> dict[str, NDArray[np.int_]]:
    """The indices of the source images of each split: disjoint, with the same share of every class."""
    train, test = train_test_split(np.arange(len(labels)), test_size=TEST_SHARE, stratify=labels, random_state=SEED)
    return {"train": train, "test": test}


def _repeated(sources: NDArray[np.int_], num: int, rng: np.random.Generator) -> NDArray[np.int_]:
    rounds = -(-num // len(sources))
    return np.concatenate([rng.permutation(sources) for _ in range(rounds)])[:num]


def _vary(image: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.uint8]:
    angle = np.deg2rad(rng.uniform(-MAX_ROTATION_DEGREES, MAX_ROTATION_DEGREES))
    shift = rng.uniform(-MAX_SHIFT_PIXELS, MAX_SHIFT_PIXELS, size=2)
    cos, sin = np.cos(angle), np.sin(angle)
    to_source = np.array([[cos, -sin], [sin, cos]]) / SCALE
    middle = (SIDE - 1) / 2 + shift
    offset = np.array(ndimage.center_of_mass(image)) - to_source @ middle
    big = ndimage.affine_transform(image, to_source, offset, output_shape=(SIDE, SIDE), order=3, mode="grid-constant")
    grey: NDArray[np.uint8] = np.rint((big.clip(BLACK, WHITE) - BLACK) * (255 / (WHITE - BLACK))).astype(np.uint8)
    return grey
