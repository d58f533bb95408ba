"""Decodes pictures for batches with torchvision's transforms, as data loaders of PyTorch do.

Importing torchvision takes a second: only what decodes pictures imports this module.
"""

import torch
from torch import Tensor
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms import v2

from accelbench.data.decode import decode

JPEG = b"\xff\xd8\xff"  # how such a file begins


class Decoder:
    """Decodes a prepared set's pictures, each resized to `side` x `side`.

    Each pixel is that of `data.decode` or differs by 1 of 255, since torchvision rounds otherwise when it resizes. It
    takes half of the time. Other formats than JPEG are decoded by `data.decode`, which knows more of them.
    """

    def __init__(self, side: int) -> None:
        self.side = side
        self.resize = v2.Resize([side, side])  # bilinear and antialiased

    def __call__(self, content: bytes) -> Tensor:
        """The picture as uint8, side x side x 3."""
        if not content.startswith(JPEG):
            return torch.tensor(decode(content, self.side))
        encoded = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        pixels: Tensor = self.resize(decode_jpeg(encoded, ImageReadMode.RGB, apply_exif_orientation=True))
        return pixels.permute(1, 2, 0)
