"""Files of weights that torch.load may read while a network is built.

`torch.load` before torch 2.10 lets a hostile file corrupt memory, even with `weights_only=True` (CVE-2026-24747). There
it reads only a library's own file, once its checksum was verified; all other weights have to be safetensors. A later
torch reads all of them, never with `weights_only=False`.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlparse

import torch
from torch import Tensor

from accelbench.devices.packages import is_safe_torch
from accelbench.errors import UserError
from accelbench.schema.text import one_line
from accelbench.schema.vocab import Library
from accelbench.schema.workload import ModelSpec

ADVICE = {
    Library.custom: "save the weights as safetensors, and load them with safetensors.torch.load_file",
    Library.timm: "use a network with weights in safetensors, or model.weights=none",
    Library.torchvision: "use model.weights=pretrained, whose checksum is verified, or model.weights=none",
}
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
            f"torch {torch.__version__} (CVE-2026-24747): {ADVICE.get(model.library, 'use model.weights=none')}"
        )

    with _replacing(load):
        yield


def read(path: str) -> dict[str, Tensor]:
    """The weights in a file for `torch.load`: a mapping of names to tensors, or the `state_dict` of a checkpoint.

    Raises:
        UserError: this torch's `torch.load` is unsafe, or the file holds something else.
    """
    flag = f"model.weights={path}"
    if not is_safe_torch(torch.__version__):
        raise UserError(
            f"{flag}: torch 2.10 or newer is needed to read it, and here is {torch.__version__}: a hostile file of "
            "this kind corrupts the memory of an older one (CVE-2026-24747): save the weights as safetensors"
        )
    try:
        found = torch_load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged or hostile file may raise anything
        first_line = one_line(str(error).partition("\n")[0])
        raise UserError(f"{flag}: not readable as a file of weights alone ({first_line})") from error
    state = found.get("state_dict", found) if isinstance(found, Mapping) else found
    if not isinstance(state, Mapping) or not all(isinstance(tensor, Tensor) for tensor in state.values()):
        raise UserError(f"{flag}: should hold a state_dict, a mapping of names to tensors")
    return {str(name): tensor for name, tensor in state.items()}


@contextmanager
def verified(url: str) -> Iterator[None]:
    """Inside, `torch.load` also reads the file that torch's cache has for `url`, which is downloaded if it is missing.

    Args:
        url: of a library's file, whose name ends with the beginning of its sha256: `resnet18-f37072fd.pth`.

    Raises:
        UserError: the file is not the library's, or its name has no checksum.
        OSError, RuntimeError: it can't be downloaded.
    """
    name = os.path.basename(urlparse(url).path)
    checksum = torch.hub.HASH_REGEX.search(name)
    if checksum is None:
        raise UserError(f"model.weights=pretrained: the library gives no checksum for {name}; use model.weights=none")
    path = Path(torch.hub.get_dir(), "checkpoints", name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(url, str(path), checksum[1], progress=False)
    # What is verified and read is a copy without a name, since the cached file may be replaced at any time.
    with path.open("rb") as cached, tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(cached, copy)
        if not _sha256(copy).startswith(checksum[1]):
            raise UserError(
                f"model.weights=pretrained: {path} is not the library's file, since its sha256 does not begin with "
                f"{checksum[1]}: remove it, and it is downloaded again"
            )
        others: Load = torch.load

        def load(file: Any, *args: Any, **settings: Any) -> Any:
            if file != str(path):
                return others(file, *args, **settings)
            copy.seek(0)
            return torch_load(copy, *args, **{**settings, "weights_only": True})

        with _replacing(load):
            yield


def _sha256(file: IO[bytes]) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # typeshed asks for a real file


@contextmanager
def _replacing(load: Load) -> Iterator[None]:
    before = torch.load
    torch.load = load
    try:
        yield
    finally:
        torch.load = before
