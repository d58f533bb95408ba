"""Decodes one picture file."""

from contextlib import suppress
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from accelbench.errors import DataError

Image.preinit()  # here, so that processes forked from this one inherit it

# No photograph has more. A malicious picture (a decompression bomb) could otherwise fill the memory.
MAX_PIXELS = 50_000_000
# Pillow reads more formats. Some of them start programs (PostScript) or are not pictures.
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")


def decode(content: bytes, side: int) -> NDArray[np.uint8]:
    """Decodes a picture of one of `FORMATS`. The name of its file does not matter.

    The Exif orientation is applied. Grey, palette and CMYK pictures become RGB; transparent pixels become white. If
    there are several frames, the first is used. The picture is resized to `side` x `side` with Pillow's antialiased
    bilinear filter; its aspect ratio is not kept. Pillow may warn of unusual Exif data.

    Returns: uint8, side x side x 3.

    Raises DataError: `content` is not a picture, or the picture is incomplete.
    """
    if not content:
        raise DataError("empty")
    try:
        with Image.open(BytesIO(content), formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise DataError(f"too large ({image.width} x {image.height} pixels)")
            image.load()
            with suppress(Exception):  # broken Exif data is ignored
                ImageOps.exif_transpose(image, in_place=True)
            pixels = np.asarray(_rgb(image).resize((side, side), Image.Resampling.BILINEAR))
    except UnidentifiedImageError as error:
        raise DataError("no picture, or of an unknown format") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(f"too large ({error})") from error
    except (OSError, SyntaxError, LookupError, ValueError, TypeError, RuntimeError, EOFError, AssertionError) as error:
        # Pillow's decoders raise all of these on broken input.
        raise DataError(f"damaged ({' '.join(str(error).split()) or type(error).__name__})") from error
    return pixels


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        raise DataError("16 bits a pixel: Pillow would clip larger values at 255")
    if image.has_transparency_data:  # an alpha channel, or one transparent colour
        above = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", above.size, "white"), above)
    return image if image.mode == "RGB" else image.convert("RGB")
