"""What a process needs before it runs cells on Lightning."""

import re
import sys
from contextlib import suppress
from functools import cache
from itertools import product
from pathlib import Path

from accelbench.engines.registry import HostSpec
from accelbench.errors import UserError
from accelbench.schema.cell import Cell
from accelbench.schema.serialize import read_bytes
from accelbench.schema.vocab import Device, Library

ENGINE = "accelbench.engines.lightning.engine"
PROBER = "accelbench.engines.lightning.probe"
LIGHT_IMPORT = "accelbench.engines.lightning.light_import"  # before Lightning
NAMES = re.compile(rb"\b(timm|torchmetrics|torchvision|transformers)\b")
SLOW = ("timm", "torchvision", "transformers")  # their imports take seconds: once, if a cell needs them


def host_spec(cell: Cell) -> HostSpec:
    """The host of `cell`: plain torch, CUDA or torch_xla."""
    named = _named(*cell.own_code.values())
    preload: tuple[str, ...] = ("accelbench.isolation.host_process", ENGINE)
    if "torchmetrics" not in named:
        preload = (LIGHT_IMPORT, *preload)
    preload += tuple(name for name in SLOW if name in named or name == cell.model.library)
    environment: dict[str, str] = {}
    if cell.model.library == Library.transformers:
        environment = {"HF_HUB_OFFLINE": "1"}  # networks are built from their configuration alone
    if cell.device == Device.gpu:
        # Number GPUs as NVML does, so that the sampler reads the GPU that computes.
        environment |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    elif cell.device == Device.tpu:
        environment |= {"PJRT_DEVICE": "TPU"}
    elif cell.device == Device.xla_cpu:
        # Preloading torch_xla replaces parts of torch.nn; no cell of this host uses plain torch.
        preload = (*preload, "torch_xla")
        devices_per_process = cell.devices // cell.num_processes
        environment |= {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": str(devices_per_process)}
    return HostSpec(ENGINE, preload, environment, prober=PROBER)


@cache
def _named(*paths: str) -> frozenset[str]:
    """The slow packages that the modules of these dotted paths name, so that a host imports them once for all cells."""
    found: set[bytes] = set()
    for place, path in product(["", *sys.path], paths):
        with suppress(OSError, ValueError, UserError):
            found.update(NAMES.findall(read_bytes(Path(place, *path.split(".")[:-1]).with_suffix(".py"))))
    return frozenset(name.decode() for name in found)
