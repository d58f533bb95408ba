"""The TensorFlow devices that a cell computes on, as a strategy of `tf.distribute`."""

import tensorflow as tf

from accelbench.errors import UnsupportedError
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Device


def strategy_for(cell: Cell) -> tf.distribute.Strategy:
    """The strategy for the cell's devices; to be called before TensorFlow has run anything.

    Raises:
        UnsupportedError: TensorFlow finds too few devices; it would silently use the CPU.
    """
    if cell.device == Device.tpu:
        return _on_tpu(cell)
    kind = cell.device.upper()
    if cell.device == Device.cpu and cell.devices > 1:
        _divide_cpu(cell.devices)
    found = tf.config.list_logical_devices(kind)
    if len(found) < cell.devices:
        raise UnsupportedError(
            f"device={cell.device}: TensorFlow finds {len(found)} of {cell.devices}: it needs CUDA libraries of its "
            "own (pip install 'tensorflow[and-cuda]', in an environment without torch); or use engine=lightning"
        )
    names = [f"/{kind}:{index}" for index in range(cell.devices)]
    return tf.distribute.OneDeviceStrategy(names[0]) if len(names) == 1 else tf.distribute.MirroredStrategy(names)


def _divide_cpu(num: int) -> None:
    """Makes TensorFlow divide the CPU into `num` devices, which share its threads."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * num)


def _on_tpu(cell: Cell) -> tf.distribute.Strategy:
    """The strategy for all cores of a TPU, or for its first core."""
    assert cell.keras is not None
    name = cell.keras.tpu
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        if name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        cores = tf.config.list_logical_devices("TPU")
    except (ValueError, IndexError, RuntimeError, OSError, tf.errors.OpError) as error:
        # Without a TPU, `local` finds no device, and a name no server.
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise UnsupportedError(
            f"engine.tpu={name}: TensorFlow reaches no TPU ({why}); engine.tpu takes `local` on a TPU VM, or a name"
        ) from error
    if not cores:
        raise UnsupportedError(f"engine.tpu={name}: TensorFlow finds no TPU core; it would take the CPU in silence")
    if cell.devices == 1:
        return tf.distribute.OneDeviceStrategy(cores[0].name)
    if cell.devices != len(cores):
        raise UnsupportedError(f"devices={cell.devices}: TensorFlow takes all {len(cores)} cores of a TPU, or one")
    return tf.distribute.TPUStrategy(resolver)
