"""Networks that a GPU has trouble with."""

import torch
from torch import Tensor, nn

LEFT_BYTES = 16 << 20  # less than the convolution's output


class OnTheHost(nn.Module):
    """A part of it computes on the CPU, which no CUDA graph can replay."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 8, 3)

    def forward(self, images: Tensor) -> Tensor:
        images = self.layer(images)
        return images + images.mean().cpu().exp().to(images.device)


class Full(nn.Module):
    """A convolution on a device whose memory is taken but for a little."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 1024, 3, padding=1)
        self.taken: list[Tensor] = []

    def forward(self, images: Tensor) -> Tensor:
        if images.is_cuda and not self.taken:
            free, _ = torch.cuda.mem_get_info()
            self.taken.append(torch.empty(free - LEFT_BYTES, dtype=torch.uint8, device=images.device))
        output: Tensor = self.layer(images)
        return output
