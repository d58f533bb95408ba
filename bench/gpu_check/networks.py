"""Networks that are difficult for a GPU."""

import torch
from torch import Tensor, nn

LEFT_BYTES = 16 << 20  # less than the convolution's output


class OnTheHost(nn.Module):
    """A network with a part on the CPU. No CUDA graph can replay this part."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 8, 3)

    def forward(self, images: Tensor) -> Tensor:
        images = self.layer(images)
        return images + images.mean().cpu().exp().to(images.device)


class Full(nn.Module):
    """A convolution on a device with almost no free memory."""

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
