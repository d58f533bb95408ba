"""What Keras, or one of its backends, does not support."""

from pathlib import Path

from accelbench.devices import packages
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Augment, Device, KerasBackend, Library, Mode, Pipeline


def why_not(cell: Cell) -> str | None:
    """Why Keras can't run `cell`, in one line that names an alternative.

    Returns:
        None if it is supported, or if it is not a Keras cell.
    """
    if cell.keras is None:
        return None
    rules = (_backend, _network, _weights, _options, _data, _executions)
    return next((reason for rule in rules if (reason := rule(cell))), None)


def _backend(cell: Cell) -> str | None:
    if cell.device == Device.xla_cpu:
        return "xla_cpu is torch_xla's: use device=cpu engine.jit_compile=true to have XLA compile for the CPU"
    if (reason := _missing(cell)) is not None or not _on_jax(cell):
        return reason
    if cell.keras is not None and not cell.keras.jit_compile:
        return "engine.jit_compile=false: Keras on JAX would run operator by operator: use engine.jit_compile=true"
    if cell.devices > 1:
        return f"devices={cell.devices}: several devices are tf.distribute's: use engine.backend=tensorflow"
    if cell.threads is not None:
        return f"threads={cell.threads}: JAX takes no limit on its threads"
    return None


def _missing(cell: Cell) -> str | None:
    """Why Keras and its backend can't be imported; the environment of JAX has no TensorFlow."""
    backend, other = ("jax", "tensorflow") if _on_jax(cell) else ("tensorflow", "jax")
    missing = next((name for name in (backend, "keras") if packages.folder(name) is None), None)
    if missing is None:
        return None
    extra = "jax" if _on_jax(cell) else "keras"
    instead = f", or use engine.backend={other}" if missing == backend and packages.folder(other) is not None else ""
    return f"engine=keras: {missing} is not installed: {packages.how_to_install(extra)}{instead}"


def _network(cell: Cell) -> str | None:
    if cell.model.library == Library.accelbench:
        return None
    return f"engine=keras has accelbench's own networks, none of {cell.model.library}: use engine=lightning"


def _weights(cell: Cell) -> str | None:
    if cell.model.weights_file is not None:
        name = f"*{Path(cell.model.weights_file).suffix}"
        return f"model.weights={name}: Keras' cells draw their weights: use engine=lightning, or model.weights=none"
    if cell.save_weights:
        return "save_weights=true: Keras' cells keep no weights: use engine=lightning, or save_weights=false"
    return None


def _options(cell: Cell) -> str | None:
    if not (on := cell.options.of_network):
        return None
    return f"{on[0]}=true is an option of Lightning's cells: use engine=lightning, or engine.jit_compile"


def _data(cell: Cell) -> str | None:
    if cell.data.pipeline == Pipeline.jpeg:
        return "data.pipeline=jpeg: Keras' cells read decoded arrays: use data.pipeline=array, or engine=lightning"
    if cell.data.augment != Augment.none:
        return f"data.augment={cell.data.augment}: use data.augment=none, or engine=lightning"
    return None


def _executions(cell: Cell) -> str | None:
    assert cell.keras is not None
    num = cell.keras.steps_per_execution
    if num == 1:
        return None
    if _on_jax(cell):
        return f"engine.steps_per_execution={num}: Keras on JAX calls the compiled function for each step: use 1"
    if cell.data.pipeline == Pipeline.device and cell.mode == Mode.train:
        return (
            f"engine.steps_per_execution={num}: training, TensorFlow fetches each batch itself: "
            "use data.pipeline=host, or engine.steps_per_execution=1"
        )
    if cell.devices > 1:
        return f"engine.steps_per_execution={num}: TensorFlow can't run them on several devices: use 1"
    return None


def _on_jax(cell: Cell) -> bool:
    return cell.keras is not None and cell.keras.backend == KerasBackend.jax
