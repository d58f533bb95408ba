"""Whether TensorFlow would compute on the machine's GPUs: without its CUDA libraries it takes the CPU in silence."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pynvml

from accelbench.devices import packages
from accelbench.devices.gpu import visible_gpus

ASK = [sys.executable, "-m", "accelbench.engines.keras.gpus"]  # in a process of its own: this one imports no framework
TIMEOUT_S = 120.0
NO_LIBRARIES = (
    "TensorFlow finds none of {num} and would take the CPU: it needs CUDA libraries of its own, in an environment "
    "without torch ({how})"
)


@dataclass(frozen=True)
class KerasGpus:
    """Whether TensorFlow finds a GPU, and its names or why not."""

    found: bool
    text: str


def ask_tensorflow() -> list[str] | None:
    """The GPUs that TensorFlow finds; None if it can't be asked."""
    try:
        asked = subprocess.run(ASK, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
        return list(json.loads(asked.stdout.splitlines()[-1]))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def visible() -> list[str]:
    """The GPUs that the driver shows."""
    try:
        return [gpu.name for gpu in visible_gpus()]
    except pynvml.NVMLError:
        return []


def look(shown: Callable[[], list[str]] = visible, ask: Callable[[], list[str] | None] = ask_tensorflow) -> KerasGpus:
    """What TensorFlow finds of the GPUs here. It is asked only if there are any, since it takes seconds."""
    if packages.folder("tensorflow") is None:
        return KerasGpus(False, f"TensorFlow is not installed: {packages.how_to_install('keras')}")
    num = len(shown())
    if not num:
        return KerasGpus(False, "no NVIDIA GPU or driver found")
    found = ask()
    if found is None:
        return KerasGpus(False, "TensorFlow did not start")
    if not found:
        return KerasGpus(False, NO_LIBRARIES.format(num=f"{num} GPU{'s' * (num > 1)}", how="make setup-keras-gpu"))
    return KerasGpus(True, " + ".join(dict.fromkeys(found)) + (f", {len(found)} of {num}" if len(found) != num else ""))
