"""Weights in files of the user's: loaded into a network, and saved from one as safetensors, which hold numbers alone.

Also weights that are put back after a step that must not count.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from accelbench.engines.lightning import checkpoints
from accelbench.errors import UserError
from accelbench.project import TORCH_FILES
from accelbench.schema.measurement import Measurement
from accelbench.schema.serialize import writing

MAX_NAMED = 3  # weights in a message


def load(network: nn.Module, path: str) -> None:
    """Copies the weights in a file into `network`, in the network's dtypes.

    Of weights that share their memory, as the first and the last layer of some language models do, one is enough.

    Raises:
        UserError: the file can't be read, or its weights are not the network's.
    """
    flag, found = f"model.weights={path}", _read(path)
    own = network.state_dict(keep_vars=True)  # whose tied weights are one object also where they have no memory
    present = {_place(own[name]) for name in found if name in own}
    problems = {
        "missing": [name for name in own if name not in found and _place(own[name]) not in present],
        "not in the network": [name for name in found if name not in own],
        "of another shape": [
            f"{name} ({_shape(tensor)} instead of {_shape(own[name])})"
            for name, tensor in found.items()
            if name in own and tensor.shape != own[name].shape
        ],
    }
    if told := "; ".join(f"{problem}: {_some(names)}" for problem, names in problems.items() if names):
        raise UserError(f"{flag}: its weights are not those of the network: {told}")
    if all(tensor.device.type != "meta" for tensor in own.values()):  # such a network has shapes alone
        network.load_state_dict(found, strict=False)


def _read(path: str) -> dict[str, Tensor]:
    """The weights in a file, by their names."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if Path(path).suffix in TORCH_FILES:
        return checkpoints.read(path)
    try:
        found: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"model.weights={path}: not readable as safetensors ({error})") from error
    return found


def save(network: nn.Module, path: Path) -> None:
    """Writes the network's weights atomically; of those that share their memory, the first.

    Raises:
        OSError: the file can't be written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    places: dict[object, str] = {}
    state = network.state_dict()
    for name, tensor in state.items():
        places.setdefault(_place(tensor), name)
    kept = {name: state[name].detach().cpu().contiguous() for name in places.values()}
    with writing(path) as file:
        try:
            save_file(_apart(kept), file)
        except SafetensorError as error:
            raise OSError(str(error)) from error


def saved(found: Measurement, network: nn.Module, path: Path) -> Measurement:
    """The measurement with a note on the file that got the network's weights, or a warning that it was not written."""
    try:
        save(network, path)
    except OSError as error:  # the measurement is kept: training again would take as long
        return replace(found, warnings=[*found.warnings, f"save_weights=true: the weights are not saved: {error}"])
    return replace(found, notes=[*found.notes, f"the trained weights are in {path.name}"])


@contextmanager
def kept(network: nn.Module) -> Iterator[None]:
    """Puts back the network's parameters and buffers at the end. The copies are in host memory: a GPU may be full."""
    copies = {name: tensor.detach().to("cpu", copy=True) for name, tensor in _named(network).items()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, tensor in _named(network).items():
                tensor.copy_(copies[name])


def _named(network: nn.Module) -> dict[str, Tensor]:
    return {**dict(network.named_parameters()), **dict(network.named_buffers())}


def _apart(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors in memory of their own: safetensors refuses views of one tensor."""
    storages = [tensor.untyped_storage().data_ptr() for tensor in state.values()]
    pairs = zip(state.items(), storages, strict=True)
    return {name: tensor.clone() if storages.count(storage) > 1 else tensor for (name, tensor), storage in pairs}


def _place(tensor: Tensor) -> object:
    """Equal for tensors that are the same memory. A tensor without memory is the same as no other."""
    if not tensor.numel() or tensor.device.type in ("meta", "xla"):
        return id(tensor)
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "one number"


def _some(names: list[str]) -> str:
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
