"""One picture's bytes -> pixels, as a good decoder does it, or why not."""

import warnings
from contextlib import suppress
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from accelbench.errors import DataError

Image.preinit()  # here, since processes forked from one that has imported this module then need not

# More than any photograph here, and few enough that a bomb of a picture can't fill the memory.
MAX_PIXELS = 50_000_000
# Pillow knows others, some of which start programs (PostScript) or mean other things than pixels.
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")


def decode(content: bytes, side: int, *, resizes: bool = True) -> NDArray[np.uint8]:
    """Decodes a picture of one of `FORMATS`, whatever its name says.

    Its orientation is applied; grey, palette and CMYK become RGB, and what is transparent white. Of several frames the
    first is taken. Resized to `side` x `side` with Pillow's antialiased bilinear filter, without keeping the aspect; if
    it is not to be resized, another size is refused.

    Returns:
        uint8, side x side x 3.

    Raises:
        DataError: the bytes are no picture, or a part of one; says which.
    """
    if not content:
        raise DataError("empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd Exif, which is odd and no more
            with Image.open(BytesIO(content), formats=FORMATS) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise DataError(f"too large ({image.width} x {image.height} pixels)")
                if not resizes and image.size != (side, side):
                    raise DataError(f"not of {side} x {side} pixels but {image.width} x {image.height}")
                image.load()
                pixels = np.asarray(_rgb(_upright(image)).resize((side, side), Image.Resampling.BILINEAR))
    except UnidentifiedImageError as error:
        raise DataError("no picture, or of an unknown format") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(f"too large ({error})") from error
    except (OSError, SyntaxError, LookupError, ValueError, TypeError, RuntimeError, EOFError) as error:
        # What Pillow's decoders raise on broken input.
        raise DataError(f"damaged ({' '.join(str(error).split()) or type(error).__name__})") from error
    return pixels


def _upright(image: Image.Image) -> Image.Image:
    """Turned as its Exif says, where that can be read."""
    with suppress(Exception):  # Exif that is broken in whatever way says nothing
        ImageOps.exif_transpose(image, in_place=True)
    return image


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # a PNG's 16 bits of grey, which Pillow would cut off at 255
        image = Image.fromarray(np.rint(np.asarray(image, dtype=np.float64) * (255 / 65535)).astype(np.uint8))
    if image.has_transparency_data:  # an alpha channel, or one colour of a palette or of all
        above = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", above.size, "white"), above)
    return image if image.mode == "RGB" else image.convert("RGB")
