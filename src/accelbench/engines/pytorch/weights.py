"""Weights in files: the user's, loaded into a network or saved from one as safetensors, and a library's.

`torch.load` before torch 2.10 lets a hostile file corrupt memory, even with `weights_only=True` (CVE-2026-24747). There
it reads only a library's own file, once its checksum was verified. A later torch also reads what the user's code loads,
never with `weights_only=False`. `model.weights` is safetensors, which hold numbers alone.
"""

import hashlib
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import torch
from torch import Tensor, nn

from accelbench.devices.packages import is_safe_torch
from accelbench.errors import UserError
from accelbench.schema.measurement import Measurement
from accelbench.schema.serialize import writing
from accelbench.schema.text import beginning, one_line
from accelbench.schema.workload import ModelSpec

MAX_WHY = 300  # characters of what torch names as the difference
Load = Callable[..., Any]
torch_load: Load = torch.load


@contextmanager
def guarded(model: ModelSpec) -> Iterator[None]:
    """Inside, `torch.load` raises a UserError if this torch's is unsafe, and else loads with `weights_only=True`."""

    def load(file: object, *args: Any, **settings: Any) -> Any:
        if is_safe_torch(torch.__version__):
            return torch_load(file, *args, **{**settings, "weights_only": True})
        name = os.path.basename(file) if isinstance(file, str | os.PathLike) else "a file"
        raise UserError(
            f"model={model.name}: {name} is not loaded, since a hostile file of this kind corrupts the memory of "
            f"torch {torch.__version__} (CVE-2026-24747): use weights in safetensors, or model.weights=none"
        )

    with replacing(load):
        yield


@contextmanager
def verified(url: str) -> Iterator[None]:
    """Inside, `torch.load` also reads the file that torch's cache has for `url`, which is downloaded if it is missing.

    The name of a library's file ends with the beginning of its sha256: `resnet18-f37072fd.pth`. A UserError says that
    the file is not the library's, or has no checksum; other errors, that it can't be downloaded.
    """
    name = os.path.basename(urlparse(url).path)
    checksum = torch.hub.HASH_REGEX.search(name)
    if checksum is None:
        raise UserError(f"model.weights=pretrained: the library gives no checksum for {name}; use model.weights=none")
    path = Path(torch.hub.get_dir(), "checkpoints", name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(url, str(path), checksum[1], progress=False)
    # The very bytes that are verified are read: the cached file may be replaced at any time.
    content = path.read_bytes()
    others = torch.load
    if not hashlib.sha256(content).hexdigest().startswith(checksum[1]):
        raise UserError(
            f"model.weights=pretrained: {path} is not the library's file, since its sha256 does not begin with "
            f"{checksum[1]}: remove it, and it is downloaded again"
        )

    def load(file: Any, *args: Any, **settings: Any) -> Any:
        if file != str(path):
            return others(file, *args, **settings)
        return torch_load(io.BytesIO(content), *args, **{**settings, "weights_only": True})

    with replacing(load):
        yield


@contextmanager
def replacing(load: Load) -> Iterator[None]:
    """Inside, `load` is in the place of `torch.load`."""
    before = torch.load
    torch.load = load
    try:
        yield
    finally:
        torch.load = before


def load(network: nn.Module, path: str) -> None:
    """Copies the weights in a file into `network`, in its dtypes; of those that are one tensor, one is enough.

    A UserError says that the file can't be read, or that its weights are not the network's.
    """
    from safetensors import SafetensorError  # a machine may have torch and Lightning alone
    from safetensors.torch import load_file

    try:
        weights: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"model.weights={path}: not readable as safetensors ({error})") from error
    state = network.state_dict(keep_vars=True)
    contents = {id(state[name]): values for name, values in weights.items() if name in state}
    tied = {name: contents[id(tensor)] for name, tensor in state.items() if id(tensor) in contents}
    try:
        network.load_state_dict({**tied, **weights})
    except RuntimeError as error:
        why = beginning(one_line(str(error)), MAX_WHY)
        raise UserError(f"model.weights={path}: its weights are not those of the network: {why}") from error


def save(network: nn.Module, path: Path) -> None:
    """Writes the network's weights atomically, or raises an OSError; of those that are one tensor, the first."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    kept: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in network.state_dict(keep_vars=True).items():
        kept.setdefault(id(tensor), (name, tensor))
    # Copies: safetensors refuses tensors that share their memory.
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in kept.values()}
    with writing(path) as file:
        try:
            save_file(copies, file)
        except SafetensorError as error:
            raise OSError(str(error)) from error


def saved(measurement: Measurement, network: nn.Module, path: Path) -> Measurement:
    """The measurement with a note on the file that got the network's weights, or a warning that it was not written."""
    try:
        save(network, path)
    except OSError as error:  # the measurement is kept: training again would take as long
        warning = f"save_weights=true: the weights are not saved: {error}"
        return replace(measurement, warnings=[*measurement.warnings, warning])
    return replace(measurement, notes=[*measurement.notes, f"the trained weights are in {path.name}"])
