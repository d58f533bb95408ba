"""Loads and saves weights in safetensors files, and makes `torch.load` safe.

Before torch 2.10, a malicious file can corrupt memory in `torch.load`, even with `weights_only=True` (CVE-2026-24747).
With such a torch, accelbench loads only files of libraries, after it has verified their checksums. With torch 2.10 or
later, the user's code may load files too, but only with `weights_only=True`. The file `model.weights` has the format
safetensors, which contains only numbers.
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
from accelbench.schema.cell import ModelSpec
from accelbench.schema.measurement import Measurement
from accelbench.schema.serialize import writing
from accelbench.schema.text import beginning, one_line

MAX_WHY = 300  # characters of torch's error in a message
Load = Callable[..., Any]
torch_load: Load = torch.load


@contextmanager
def guarded(model: ModelSpec) -> Iterator[None]:
    """Makes `torch.load` use `weights_only=True` in the context. Before torch 2.10, loading raises UserError."""

    def load(file: object, *args: Any, **settings: Any) -> Any:
        if is_safe_torch(torch.__version__):
            return torch_load(file, *args, **{**settings, "weights_only": True})
        name = os.path.basename(file) if isinstance(file, str | os.PathLike) else "a file"
        raise UserError(
            f"model={model.name}: {name} is not loaded, because a malicious file can corrupt memory in torch "
            f"{torch.__version__} (CVE-2026-24747): use weights in safetensors, or model.weights=none"
        )

    with replacing(load):
        yield


@contextmanager
def verified(url: str) -> Iterator[None]:
    """Allows `torch.load`, inside the context, to load a library's file of pretrained weights.

    A library publishes the file at `url`. If the file is not in torch's cache, it is downloaded. The file's name
    contains the first digits of its sha256, as in `resnet18-f37072fd.pth`. Raises UserError if the name contains no
    such digits, or if they do not match the file. If the download fails, torch.hub's error is raised.
    """
    name = os.path.basename(urlparse(url).path)
    checksum = torch.hub.HASH_REGEX.search(name)
    if checksum is None:
        raise UserError(f"model.weights=pretrained: the library has no checksum of {name}: use model.weights=none")
    path = Path(torch.hub.get_dir(), "checkpoints", name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(url, str(path), checksum[1], progress=False)
    # Loads exactly the verified bytes: another program may replace the cached file at any time.
    content = path.read_bytes()
    load_other = torch.load
    if not hashlib.sha256(content).hexdigest().startswith(checksum[1]):
        raise UserError(
            f"model.weights=pretrained: {path} is not the library's file: its sha256 does not begin with "
            f"{checksum[1]}: remove the file, and accelbench downloads it again"
        )

    def load(file: Any, *args: Any, **settings: Any) -> Any:
        if file != str(path):
            return load_other(file, *args, **settings)
        return torch_load(io.BytesIO(content), *args, **{**settings, "weights_only": True})

    with replacing(load):
        yield


@contextmanager
def replacing(load: Load) -> Iterator[None]:
    """A context in which `load` replaces `torch.load`."""
    before = torch.load
    torch.load = load
    try:
        yield
    finally:
        torch.load = before


def load(network: nn.Module, path: str) -> None:
    """Copies the weights in a file into `network`, and converts them to the dtypes of the network.

    If a tensor has several names in the network, the file needs it under only one name. Raises UserError if the file
    can't be read, or if its weights do not fit the network.
    """
    from safetensors import SafetensorError  # imported here: not every machine has this package
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
