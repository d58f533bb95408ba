"""Draws stand-ins for data sets that are not available.

A class consists of images of one digit, with random position, size and colours. With stand-ins, everything runs without
an internet connection. Stand-ins are easy to classify. So don't compare the accuracy on a stand-in with the accuracy on
a real data set.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from accelbench.data.arrays import Arrays, save_split

NUM_DRAWN = {"train": 1_500, "test": 500}
MAX_TURN_DEGREES = 20.0
MAX_SHIFT = 0.12  # share of the picture's side
NOISE = 12.0  # standard deviation of the noise of a value, which is from 0 to 255


def draw(label: int, side: int, rng: np.random.Generator, *, in_colour: bool) -> NDArray[np.uint8]:
    """Draws a light digit on a dark ground. Returns uint8 of shape (side, side), or (side, side, 3) if `in_colour`."""
    place = side * (0.5 + rng.uniform(-MAX_SHIFT, MAX_SHIFT, 2))
    image = Image.new("L", (side, side))
    font = _font(round(side * rng.uniform(0.7, 1.0)))
    ImageDraw.Draw(image).text(tuple(place.tolist()), str(label), fill=255, font=font, anchor="mm")
    turned = image.rotate(rng.uniform(-MAX_TURN_DEGREES, MAX_TURN_DEGREES), Image.Resampling.BILINEAR)
    shade = np.asarray(turned, np.float64) / 255
    if in_colour:
        paper, ink = rng.uniform(0, 100, 3), rng.uniform(155, 255, 3)
        pixels = paper + (ink - paper) * shade[..., None]
    else:
        pixels = rng.uniform(150, 255) * shade
    return np.rint(np.clip(pixels + rng.normal(0, NOISE, pixels.shape), 0, 255)).astype(np.uint8)


def save_drawn(folder: Path, side: int, *, in_colour: bool) -> str:
    """Saves images of ten digits in `folder`. Every call draws the same images. Returns a description of them."""
    for seed, (split, num) in enumerate(NUM_DRAWN.items()):
        rng = np.random.default_rng(seed)
        images = np.stack([draw(index % 10, side, rng, in_colour=in_colour) for index in range(num)])
        save_split(folder, split, Arrays(images, (np.arange(num) % 10).astype(np.uint8)))
    counts = ", ".join(f"{num:,} {split}" for split, num in NUM_DRAWN.items())
    return f"a drawn digit for each class, {counts} images of {side} x {side}"


@lru_cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
