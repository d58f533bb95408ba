"""Files of weights that torch.load may read while a network is built.

`torch.load` before torch 2.10 lets a hostile file corrupt memory, even with `weights_only=True` (CVE-2026-24747). There
it reads only a library's own file, once its checksum was verified; all other weights have to be safetensors. It never
reads with `weights_only=False`.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlparse

import torch
from torch.torch_version import TorchVersion

from accelbench.errors import UserError
from accelbench.schema.vocab import Library
from accelbench.schema.workload import ModelSpec

FIXED = "2.10"
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
        if TorchVersion(torch.__version__) >= FIXED:
            return torch_load(file, *args, **{**settings, "weights_only": True})
        name = os.path.basename(file) if isinstance(file, str | os.PathLike) else "a file"
        raise UserError(
            f"model={model.name}: {name} is not loaded, since a hostile file of this kind corrupts the memory of "
            f"torch {torch.__version__} (CVE-2026-24747): {ADVICE.get(model.library, 'use model.weights=none')}"
        )

    with _replacing(load):
        yield


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
