from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from accelbench.data import decode as module
from accelbench.data.decode import decode
from accelbench.errors import DataError


def encoded(image, kind="PNG", **options):
    content = BytesIO()
    image.save(content, kind, **options)
    return content.getvalue()


def photo(width=90, height=70, mode="RGB"):
    """Smooth colours, so that JPEG changes little."""
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image.fromarray(np.stack([x, y, 255 - x], -1).astype(np.uint8)).convert(mode)


@pytest.mark.parametrize("kind", ["JPEG", "GIF", "BMP", "PNG", "WEBP"])
def test_every_usual_format_whatever_the_name_says(kind):
    pixels = decode(encoded(photo(), kind), 32).astype(int)
    assert pixels.shape == (32, 32, 3)
    assert np.abs(pixels - decode(encoded(photo()), 32)).mean() < 12


def test_transparency_is_white_and_an_orientation_is_applied():
    assert decode(encoded(Image.new("RGBA", (8, 8), (200, 0, 0, 0))), 8).min() == 255
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    turned = decode(encoded(photo(), "JPEG", exif=exif, quality=95), 32).astype(int)
    assert np.abs(turned - np.rot90(decode(encoded(photo()), 32).astype(int), -1)).mean() < 3


def test_bytes_behind_the_end_and_broken_exif_are_passed_over():
    content = encoded(photo(), "JPEG")
    assert np.array_equal(decode(content + b"more" * 300, 32), decode(content, 32))
    broken = content[:2] + b"\xff\xe1\x00\x10Exif\x00\x00broken!!" + content[2:]
    assert np.array_equal(decode(broken, 32), decode(content, 32))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"<html>404</html>", "no picture"),
        (encoded(photo(), "EPS"), "no picture"),  # starts a program
        (encoded(photo(), "JPEG")[:-400], "damaged .*truncated"),
        (encoded(Image.fromarray(np.zeros((9, 9), np.uint16))), "16 bits a pixel"),
    ],
)
def test_what_is_no_whole_picture_is_refused_with_its_reason(content, reason):
    with pytest.raises(DataError, match=reason):
        decode(content, 32)


def test_a_picture_that_would_fill_the_memory_is_refused(monkeypatch):
    monkeypatch.setattr(module, "MAX_PIXELS", 5_000)
    with pytest.raises(DataError, match=r"too large \(90 x 70 pixels\)"):
        decode(encoded(photo()), 32)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 3_000)  # Pillow's own, of which twice as many are an error
    with pytest.raises(DataError, match="too large .*could be decompression bomb"):
        decode(encoded(photo()), 32)
