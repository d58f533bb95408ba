"""The host process of cells that run on PyTorch."""

from contextlib import suppress
from pathlib import Path

from accelbench.devices.gpu import IN_ORDER
from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Device, Library, Mode

ENGINE = "accelbench.engines.pytorch.engine"
PROBER = "accelbench.engines.pytorch.probe"
NOTE_MALLOC = "accelbench.engines.note_malloc"
OF_OPTIMIZERS = "torch._dynamo"  # otherwise, torch imports it at an optimiser's first step, which takes a second
# Packages whose imports take seconds. A host imports them once, if its cells need them.
SLOW = ("pytorch_lightning", "timm", "torchvision", "transformers")


def host_spec(cell: Cell) -> HostSpec:
    """Describes the host process of `cell`: it imports torch (for XLA, also torch_xla), and forks the cells."""
    preload: tuple[str, ...] = ("torch", NOTE_MALLOC, "accelbench.isolation.supervisor", ENGINE)
    if cell.mode == Mode.train or cell.options.compile:
        preload = (*preload, OF_OPTIMIZERS)
    named = _named(*cell.own_code.values())
    preload += tuple(name for name in SLOW if name in named or name == cell.model.library)
    environment: dict[str, str] = {}
    if cell.model.library == Library.transformers:
        environment = {"HF_HUB_OFFLINE": "1"}  # networks are built only from their configuration
    if cell.device == Device.gpu:
        environment |= IN_ORDER
    elif cell.device == Device.tpu:
        environment |= {"PJRT_DEVICE": "TPU"}
    elif cell.device == Device.xla_cpu:
        # Importing torch_xla replaces parts of torch.nn. No cell of this host uses plain torch, so torch_xla may be
        # preloaded.
        preload = (*preload, "torch_xla")
        devices_per_process = cell.devices // cell.num_processes
        environment |= {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": str(devices_per_process)}
    return HostSpec(ENGINE, preload, environment, prober=PROBER)


def _named(*paths: str) -> list[str]:
    """Returns the packages in `SLOW` whose names occur in the source files of the user's code.

    `paths` are dotted paths, such as `nets.Net`. Their files in this folder are read as text, and not imported.
    """
    text = ""
    for path in paths:
        with suppress(OSError):
            text += Path(path.rpartition(".")[0].replace(".", "/") + ".py").read_text(errors="replace")
    return [name for name in SLOW if name in text]
