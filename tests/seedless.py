"""Seeds no accelerator where there is none: torch keeps such a seed for later, with the stack of the call as text.

Checks of a cell seed a thousand times: making that text takes a third of the time of many tests.
"""

import torch

from accelbench.devices.registry import look
from accelbench.schema.cell import Device

if not look(Device.gpu).present:
    torch.cuda.manual_seed_all = torch.xpu.manual_seed_all = lambda seed: None
