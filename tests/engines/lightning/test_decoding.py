"""torchvision's pipeline beside the one that prepares the arrays."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from accelbench.data.decode import decode
from accelbench.engines.lightning.feed import Decoder

TURNED = Image.Exif()
TURNED[0x0112] = 6  # to be turned by 90 degrees clockwise


@pytest.mark.parametrize(
    ("mode", "kind", "options"),
    [
        *(("RGB", "JPEG", {}), ("RGB", "JPEG", {"progressive": True, "exif": TURNED}), ("L", "JPEG", {})),
        *(("CMYK", "JPEG", {}), ("RGBA", "PNG", {}), ("RGB", "BMP", {})),
    ],
)
def test_a_picture_is_that_of_the_arrays_but_for_rounding(mode, kind, options):
    x, y = np.meshgrid(np.linspace(0, 255, 90), np.linspace(0, 255, 70))
    content = BytesIO()
    Image.fromarray(np.stack([x, y, 255 - x], -1).astype(np.uint8)).convert(mode).save(content, kind, **options)
    found, expected = Decoder(32)(content.getvalue()).numpy(), decode(content.getvalue(), 32)
    assert (found.shape, found.dtype) == ((32, 32, 3), np.uint8)
    assert np.abs(found.astype(int) - expected).max() <= 1
