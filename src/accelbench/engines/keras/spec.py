"""Describes the host process for cells of the Keras engine.

A host process imports a framework. It then forks one process for each cell.
"""

from accelbench.devices.gpu import cuda_variables
from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Device

ENGINE = "accelbench.engines.keras.engine"


def host_spec(cell: Cell) -> HostSpec:
    """Describes the host process for `cell`. Cells with different backends or kinds of devices use separate ones."""
    assert cell.keras is not None
    environment = {"KERAS_BACKEND": cell.keras.backend.value, "TF_CPP_MIN_LOG_LEVEL": "2"}
    if cell.device == Device.cpu:
        # Without this variable, both backends search for GPUs and log errors.
        environment |= {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    if cell.device == Device.gpu:
        # By default, both backends allocate all memory of the GPU at once, so the peak memory would be unknown.
        environment |= {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        environment |= cuda_variables()
    return HostSpec(ENGINE, ("accelbench.isolation.supervisor", ENGINE), environment)
