"""Finds the folders and versions of installed packages without importing them. Lists packages that affect results."""

import importlib.metadata
import importlib.util
import re
from pathlib import Path

INSTALLED = {"site-packages", "dist-packages"}  # names of folders with installed packages
# Distributions that compute. Distributions that plan, track or report (hydra-core, dvc, mlflow) change no number.
# accelbench's version is not here, because its measuring code has a digest.
COMPUTING = (
    "torch",
    "torchvision",
    "torch_xla",
    "libtpu",
    "pytorch-lightning",
    "lightning",
    "tensorflow",
    "keras",
    "numpy",
    "pillow",
    "timm",
    "transformers",
    "flash-attn",
    "mamba-ssm",
    "causal-conv1d",
    "bitsandbytes",
    "onnx",
    "onnxscript",
    "onnxruntime",
    "openvino",
    "nncf",
    "torchao",
    "torch_tpu",
    "triton",
    "nvidia-cudnn-cu12",
    "nvidia-nccl-cu12",
    "nvidia-cublas-cu12",
    "nvidia-cudnn-cu13",
    "nvidia-nccl-cu13",
    "nvidia-cublas",  # of CUDA 13
)
# Module that the process of a cell may need -> its distribution.
DISTRIBUTIONS = {
    **{name: name for name in ("msgspec", "numpy", "torch", "torchvision", "tensorflow", "keras")},
    **{
        name: name
        for name in ("onnx", "onnxruntime", "onnxscript", "openvino", "nncf", "timm", "transformers")
    },
    "pynvml": "nvidia-ml-py",
    "pytorch_lightning": "pytorch-lightning",
}


def folder(package: str) -> Path | None:
    """Returns the folder of a top-level package. Returns None if the package is not installed."""
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def version(distribution: str) -> str | None:
    """Returns the version of a distribution. Returns None if the distribution is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def cuda_of_torch(torch_folder: Path | None = None) -> str | None:
    """Returns the release of CUDA that torch was built for, such as `12.8`, or None. Does not import torch.

    If `torch_folder` is None, examines the installed torch.
    """
    torch_folder = torch_folder or folder("torch")
    text = (torch_folder / "version.py").read_text() if torch_folder else ""
    match = re.search(r"^cuda\b.*= '([\d.]+)'$", text, re.MULTILINE)
    return match[1] if match else None
