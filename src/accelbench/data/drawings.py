"""Drawn pictures as a stand-in for photographs: each class is a silhouette in random poses, colours and lights.

Classes differ only in shape: position, size, angle, colours and background have the same random ranges for all of
them, so that a linear model of the pixels does badly and a convolutional network well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from accelbench.data.arrays import Arrays, save_split

# Pictures are drawn this many times larger and scaled down, for smooth edges.
OVERSAMPLING = 3

Point = tuple[float, float]


@dataclass(frozen=True)
class Part:
    """A polygon in the square from -1 to 1, x to the right and y down."""

    points: Sequence[Point]  # the corners
    tone: float = 0.0  # share of the second colour, 0 to 1


@dataclass(frozen=True, kw_only=True)
class Style:
    """How much pictures vary. Random values are uniform."""

    size: tuple[float, float] = (0.5, 0.8)  # range of the shape's width, as a share of the picture's
    turn: float = 25.0  # maximum rotation to either side, in degrees
    shift: float = 0.25  # maximum shift of the centre to either side, as a share of half the picture
    clutter: int = 4  # maximum number of patches in the background
    noise: float = 12.0  # standard deviation of each pixel, 0 to 255
    grey: bool = False  # whether the picture is grey, light on black as in Fashion-MNIST


def oval(x: float, y: float, width: float, height: float, tone: float = 0.0) -> Part:
    """An ellipse around (x, y), as a polygon, which can be rotated."""
    angles = np.linspace(0, 2 * np.pi, 28, endpoint=False)
    return Part([(x + width * np.cos(a), y + height * np.sin(a)) for a in angles], tone)


def box(left: float, top: float, right: float, bottom: float, tone: float = 0.0) -> Part:
    """A rectangle."""
    return Part([(left, top), (right, top), (right, bottom), (left, bottom)], tone)


def mirrored(*points: Point, tone: float = 0.0) -> tuple[Part, Part]:
    """A polygon and its mirror image."""
    return Part(points, tone), Part([(-x, y) for x, y in points], tone)


def draw(parts: Sequence[Part], side: int, style: Style, rng: np.random.Generator) -> NDArray[np.uint8]:
    """One picture: uint8, side x side (grey) or side x side x 3."""
    big = side * OVERSAMPLING
    colours = _colours(style, rng)
    image = Image.new("RGB", (big, big), _word(colours[2]))
    canvas = ImageDraw.Draw(image)
    for _ in range(rng.integers(0, style.clutter + 1) if style.clutter else 0):
        _blot(canvas, big, colours[2], rng)
    to_picture, centre = _pose(style, rng)
    for part in parts:
        colour = colours[0] + part.tone * (colours[1] - colours[0])
        points = (np.array(part.points) @ to_picture.T + centre + 1) * (big / 2)
        canvas.polygon([(float(x), float(y)) for x, y in points], fill=_word(colour))
    small = np.asarray(image.resize((side, side), Image.Resampling.BOX), dtype=np.float64)
    if style.grey:
        small = small.mean(-1)
    light = _light(side, rng)
    small = small * (light if style.grey else light[..., None])
    noise = rng.normal(0, style.noise, small.shape)
    return np.rint(np.clip(small + (noise * (small > 0) if style.grey else noise), 0, 255)).astype(np.uint8)


def draw_set(
    shapes: Mapping[str, Sequence[Part]], num: int, side: int, style: Style, seed: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """`num` pictures, the classes in turn, and their labels. The same arguments give the same bytes."""
    rng = np.random.default_rng(seed)
    labels = (np.arange(num) % len(shapes)).astype(np.uint8)
    parts = list(shapes.values())
    return np.stack([draw(parts[label], side, style, rng) for label in labels]), labels


def _pose(style: Style, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    angle = np.deg2rad(rng.uniform(-style.turn, style.turn))
    cos, sin = np.cos(angle), np.sin(angle)
    scale = rng.uniform(*style.size) * np.diag(rng.uniform(0.85, 1.15, 2) * [rng.choice([-1, 1]), 1])
    return np.array([[cos, -sin], [sin, cos]]) @ scale, rng.uniform(-style.shift, style.shift, 2)


def _colours(style: Style, rng: np.random.Generator) -> NDArray[np.float64]:
    if style.grey:
        first, second = rng.uniform(110, 255), rng.uniform(60, 255)
        return np.array([[first] * 3, [second] * 3, [0.0] * 3])
    while True:
        colours = rng.uniform(20, 235, (3, 3))
        if min(np.abs(colours[0] - colours[2]).sum(), np.abs(colours[0] - colours[1]).sum()) > 150:
            return colours


def _blot(canvas: ImageDraw.ImageDraw, big: int, background: NDArray[np.float64], rng: np.random.Generator) -> None:
    x, y = rng.uniform(0, big, 2)
    width, height = rng.uniform(0.05, 0.3, 2) * big
    colour = np.clip(background + rng.uniform(-50, 50, 3), 0, 255)
    draw_one = canvas.ellipse if rng.random() < 0.5 else canvas.rectangle
    draw_one((x - width, y - height, x + width, y + height), fill=_word(colour))


def _light(side: int, rng: np.random.Generator) -> NDArray[np.float64]:
    angle, strength = rng.uniform(0, 2 * np.pi), rng.uniform(0, 0.35)
    across = np.linspace(-1, 1, side)
    light: NDArray[np.float64] = 1 - strength * (1 + np.cos(angle) * across[None] + np.sin(angle) * across[:, None]) / 2
    return light


def _word(colour: NDArray[np.float64]) -> tuple[int, int, int]:
    red, green, blue = np.rint(np.clip(colour, 0, 255)).astype(int).tolist()
    return red, green, blue


def save_drawn(
    folder: Path, shapes: Mapping[str, Sequence[Part]], nums: Mapping[str, int], side: int, style: Style
) -> str:
    """Draws and writes the splits of a stand-in; returns a description for the manifest.

    Args:
        folder: gets the arrays.
        shapes: class -> its parts, in the order of the labels.
        nums: split -> number of pictures.
        side: height and width in pixels.
        style: how much the pictures vary.
    """
    for seed, (split, num) in enumerate(nums.items()):
        images, labels = draw_set(shapes, num, side, style, seed)
        save_split(folder, split, Arrays(images, labels))
    counts = ", ".join(f"{num:,} {split}" for split, num in nums.items())
    return f"drawn silhouettes in many poses, {counts} images of {side} x {side}"
