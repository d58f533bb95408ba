"""Loads and saves weights in safetensors files. This format contains only numbers."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn

from accelbench.errors import UserError
from accelbench.schema.measurement import Measurement
from accelbench.schema.serialize import writing
from accelbench.schema.text import beginning, one_line

MAX_WHY = 300  # characters of torch's error in a message


def load(network: nn.Module, path: str) -> None:
    """Copies the weights in a file into `network`, and converts them to the dtypes of the network.

    If a tensor has several names in the network, the file needs it under only one name. Raises UserError if the file
    can't be read, or if its weights do not fit the network.
    """
    from safetensors import SafetensorError  # imported here: not every machine has this package
    from safetensors.torch import load_file, load_model

    try:
        with suppress(RuntimeError):  # raised if the file has only one name of a tensor with several names
            network.load_state_dict(load_file(path))
            return
        load_model(network, path)  # raises an error if the file has all names
    except (OSError, SafetensorError) as error:
        raise UserError(f"model.weights={path}: not readable as safetensors ({error})") from error
    except RuntimeError as error:
        why = beginning(one_line(str(error)), MAX_WHY)
        raise UserError(f"model.weights={path}: the file's weights do not fit the network: {why}") from error


def save(network: nn.Module, path: Path) -> None:
    """Writes the network's weights to `path` atomically. Raises OSError if that fails.

    If a tensor has several names, it is written only under the first name.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    tensors: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in network.state_dict(keep_vars=True).items():
        tensors.setdefault(id(tensor), (name, tensor))
    # Copies, because safetensors refuses tensors that share memory.
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.values()}
    with writing(path) as file:
        try:
            save_file(copies, file)
        except SafetensorError as error:
            raise OSError(str(error)) from error


def saved(measurement: Measurement, network: nn.Module, path: Path) -> Measurement:
    """Saves the weights. Returns the measurement with a note that names the file.

    If saving fails, returns the measurement with a warning instead.
    """
    try:
        save(network, path)
    except OSError as error:  # no exception: the measurement must not be lost
        warning = f"save_weights=true: the weights were not saved: {error}"
        return replace(measurement, warnings=[*measurement.warnings, warning])
    return replace(measurement, notes=[*measurement.notes, f"the trained weights are in {path.name}"])
