"""What this machine and its project have, and which kinds of cells would run here."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pynvml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from accelbench.data.manifest import read_manifest
from accelbench.devices import packages
from accelbench.devices.gpu import visible_gpus
from accelbench.devices.registry import DeviceReport, look
from accelbench.errors import UserError
from accelbench.grid import support
from accelbench.grid.fingerprint import fingerprint
from accelbench.project import MANIFEST, Workplace
from accelbench.schema.ceilings import Ceilings, read_ceilings
from accelbench.schema.cell import Cell, KerasSettings
from accelbench.schema.measurement import Data
from accelbench.schema.text import one_line
from accelbench.schema.vocab import NOT_QUANTIZED, Device, Engine, Mode, Precision
from accelbench.schema.workload import ModelSpec
from accelbench.settings import params
from accelbench.sweep.early import plain_cell
from accelbench.sweep.prober import PROBING_ENGINE

# TensorFlow's name for the model of each GPU that it can compute on, on one line.
GPUS = """
import json, tensorflow as tf
details = tf.config.experimental.get_device_details
print(json.dumps([details(gpu).get("device_name", gpu.name) for gpu in tf.config.list_physical_devices("GPU")]))
"""
ASK = [sys.executable, "-c", GPUS]  # in a process of its own: this one imports no framework
TIMEOUT_S = 120.0
NO_LIBRARIES = (
    "TensorFlow finds none of {num} and would take the CPU: it needs CUDA libraries of its own, in an environment "
    "without torch (make setup-keras-gpu)"
)


@dataclass(frozen=True)
class Kind:
    """A kind of cell: `reason` says why it would not run here, None if it would."""

    device: Device
    precision: Precision
    mode: Mode
    model: str
    reason: str | None


@dataclass(frozen=True)
class Facts:
    """What both views of `doctor` show."""

    place: Workplace
    reports: list[DeviceReport]
    kinds: list[Kind]  # on the devices that are there, of accelbench's own networks
    tensorflow: tuple[bool, str]  # whether TensorFlow finds a GPU, and its names or why not
    ceilings: Mapping[str, Ceilings]

    @classmethod
    def of(cls, place: Workplace) -> "Facts":
        """Looks at this machine and `place`; raises a UserError if a file in conf/model is not readable."""
        reports = [look(device) for device in Device]
        kinds = list(kinds_on([report for report in reports if report.present], _own_models(place.conf)))
        known = read_ceilings(place.cache, fingerprint(PROBING_ENGINE))
        return cls(place, reports, kinds, tensorflow_gpus(), known)


def kinds_on(reports: Iterable[DeviceReport], models: Sequence[ModelSpec]) -> Iterator[Kind]:
    """Every combination of the reports' devices, precisions, modes and models."""
    for report in reports:
        for precision in NOT_QUANTIZED:
            for mode in Mode:
                for model in models:
                    cell = replace(plain_cell(report.device, precision), mode=mode, model=model)
                    yield Kind(report.device, precision, mode, model.name, support.why_not(cell, report))


def _own_models(conf: Path) -> list[ModelSpec]:
    """Accelbench's own networks in conf/model, with their optimisers."""
    models = []
    for path in sorted(conf.glob("model/*.yaml")):
        try:
            config: Any = OmegaConf.load(path)
            if "library" not in config.get("model", ()):  # files with a library stand for any network of it
                network, optimizer = config.get("network"), config.get("optimizer", "adam")
                models.append(ModelSpec(name=config["name"], network=network, optimizer=optimizer))
        except (OSError, YAMLError, OmegaConfBaseException, AttributeError, TypeError) as error:
            raise UserError(f"{path.relative_to(conf.parent)}: no readable model, with a name ({error})") from error
    return models


def why_not(engine: Engine, precision: Precision = Precision.fp32) -> str | None:
    """Why the engine would not infer in this precision on this machine's CPU; None if it would."""
    keras = KerasSettings() if engine == Engine.keras else None
    cell: Cell = replace(plain_cell(Device.cpu, precision), engine=engine, keras=keras)
    return support.why_not(cell, look(Device.cpu))


def data_sets(place: Workplace) -> dict[str, Data | str]:
    """Data set -> what was prepared, or why it is not there. Of params.yaml; outside of a project, of all prepared.

    Raises UserError: params.yaml is not readable.
    """
    if place.project is None:  # a run prepares any other
        names = sorted(path.parent.name for path in place.data.glob(f"*/{MANIFEST}"))
    else:
        names = [str(name) for name in params.load(place.project).get("data") or {}]
    found: dict[str, Data | str] = {}
    for name in names:
        try:
            found[name] = read_manifest(place.data / name)
        except UserError as error:
            found[name] = relative(error, place.root)
    return found


def relative(error: UserError, root: Path) -> str:
    """The message on one line, with paths relative to the project's folder."""
    return one_line(str(error).replace(f"{root}/", ""))


def ask_tensorflow() -> list[str] | None:
    """The GPUs that TensorFlow finds; None if it can't be asked."""
    try:
        asked = subprocess.run(ASK, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
        return list(json.loads(asked.stdout.splitlines()[-1]))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def _visible() -> list[str]:
    try:
        return [gpu.name for gpu in visible_gpus()]
    except pynvml.NVMLError:
        return []


def tensorflow_gpus(
    visible: Callable[[], list[str]] = _visible, ask: Callable[[], list[str] | None] = ask_tensorflow
) -> tuple[bool, str]:
    """Whether TensorFlow would compute on the GPUs that the driver shows, and their names or why not.

    Without its CUDA libraries it takes the CPU in silence. It is asked only if there are GPUs, since it takes seconds.
    """
    if packages.folder("tensorflow") is None:
        return False, f"TensorFlow is not installed: {packages.how_to_install('keras')}"
    if not (num := len(visible())):
        return False, "no NVIDIA GPU or driver found"
    if (found := ask()) is None:
        return False, "TensorFlow did not start"
    if not found:
        return False, NO_LIBRARIES.format(num=f"{num} GPU{'s' * (num > 1)}")
    return True, " + ".join(dict.fromkeys(found)) + (f", {len(found)} of {num}" if len(found) != num else "")
