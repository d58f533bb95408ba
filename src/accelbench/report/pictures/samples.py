"""A look at the data: samples of each class of a prepared data set, as one picture."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray
from PIL import Image

from accelbench.data.arrays import array_path
from accelbench.data.manifest import read_classes
from accelbench.report.pictures.style import WARNING_COLOUR, finished, sized
from accelbench.schema.text import clean

NUM = 10  # samples of a class
MAX_CLASSES = 12  # the first ones
MAX_SIDE = 64  # pixels of a sample: larger ones are made smaller
GAP = 2  # pixels between samples


def sheet(folder: Path, title: str, warning: str) -> Figure:
    """The first training images of each class, a row per class.

    Args:
        folder: of the prepared data set.
        title: of the picture.
        warning: for a stand-in: written below the title, and STAND-IN across the samples; empty for the data itself.

    Raises:
        OSError, ValueError: an array can't be read.
    """
    images = np.load(array_path(folder, "train", "images"), mmap_mode="r")
    labels = np.load(array_path(folder, "train", "labels"), mmap_mode="r")
    classes = list(map(clean, read_classes(folder)[:MAX_CLASSES]))
    side = min(MAX_SIDE, images.shape[1])
    step = side + GAP
    mosaic = np.full((step * len(classes) - GAP, step * NUM - GAP, 3), 255, np.uint8)
    for row, _ in enumerate(classes):
        for column, index in enumerate(np.flatnonzero(labels == row)[:NUM]):
            mosaic[row * step :, column * step :][:side, :side] = _small(images[index], side)
    figure = sized(7.5, 1.1 + 6.2 * len(mosaic) / mosaic.shape[1])
    axes = figure.subplots()
    axes.imshow(mosaic, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([row * step + side / 2 for row in range(len(classes))], classes, fontsize=9)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if warning:
        is_high = len(classes) > 4
        style: dict[str, Any] = {"fontsize": 54, "rotation": 20} if is_high else {"fontsize": 36}
        style |= {"transform": axes.transAxes, "ha": "center", "va": "center", "color": WARNING_COLOUR}
        edge = [withStroke(linewidth=5, foreground="white")]
        axes.text(0.5, 0.5, "STAND-IN", weight="bold", alpha=0.75, path_effects=edge, **style)
    return finished(figure, title, warning)


def _small(image: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    colour = image if image.ndim == 3 else np.repeat(image[:, :, None], 3, axis=2)
    if colour.shape[:2] == (side, side):
        return colour
    return np.asarray(Image.fromarray(np.ascontiguousarray(colour)).resize((side, side)))
