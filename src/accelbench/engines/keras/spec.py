"""Describes the host process for cells of the Keras engine.

A host process imports a framework. It then forks one process for each cell.
"""

from accelbench.devices.gpu import IN_ORDER
from accelbench.engines.registry import HostSpec
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Device

ENGINE = "accelbench.engines.keras.engine"


def host_spec(cell: Cell) -> HostSpec:
    """Describes the host process for `cell`. Cells with different kinds of devices use separate ones."""
    environment = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2"}
    if cell.device == Device.cpu:
        environment["CUDA_VISIBLE_DEVICES"] = ""  # otherwise TensorFlow searches for GPUs and logs errors
    if cell.device == Device.gpu:
        # By default, TensorFlow allocates all memory of the GPU at once, so the peak memory would be unknown.
        environment["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
        environment |= IN_ORDER
    return HostSpec(ENGINE, ("accelbench.isolation.supervisor", ENGINE), environment)
