"""What a process needs before it runs cells on Lightning."""

from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Device, Library

ENGINE = "accelbench.engines.lightning.engine"
PROBER = "accelbench.engines.lightning.probe"
LIGHT_IMPORT = "accelbench.engines.lightning.light_import"  # before Lightning
SLOW = ("timm", "torchvision", "transformers")  # their imports take seconds: once for the cells of a library


def host_spec(cell: Cell) -> HostSpec:
    """The host of `cell`: plain torch, CUDA or torch_xla."""
    preload: tuple[str, ...] = (LIGHT_IMPORT, "accelbench.isolation.host_process", ENGINE)
    preload += tuple(name for name in SLOW if name == cell.model.library)
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
