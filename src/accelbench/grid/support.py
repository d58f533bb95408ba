"""Decides whether a cell can run on this machine. Collects the facts that the rules in `rules.py` need."""

import math
import os
import shutil
import sys
from dataclasses import fields
from functools import cached_property

from accelbench.devices import allocators, interpreters, packages
from accelbench.devices.registry import DeviceReport
from accelbench.devices.tpu import TORCH_TPU
from accelbench.engines import images
from accelbench.errors import how_to_install
from accelbench.rules import SKIPPED, Asked
from accelbench.schema.cell import (
    ON_TORCH,
    QUANTIZED,
    RANDOM,
    SHAPES,
    XLA,
    Cell,
    Device,
    Engine,
    KerasSettings,
    Library,
    Options,
    Pipeline,
)

# The compilers that inductor and Triton look for if CXX and CC are not set.
CXX = ["clang++" if sys.platform == "darwin" else "g++"]
C = ["clang", "gcc"]

# The modules that an engine's cells import besides torch; below, the modules that quantise a network for an engine.
MODULES = {
    Engine.lightning: ("pytorch_lightning",),
    Engine.onnxruntime: ("onnxruntime", "onnx", "onnxscript"),
    Engine.openvino: ("openvino",),
}
QUANTIZERS = {Engine.openvino: ("nncf",)}
LIBRARIES = (Library.timm, Library.torchvision, Library.transformers)  # libraries of networks
# Module -> the extra that installs the module, if the names differ.
EXTRAS = {
    "tensorflow": "keras",
    "onnx": "onnxruntime",
    "onnxscript": "onnxruntime",
    "nncf": "openvino",
    "torch_xla": "xla",
}


def why_not(cell: Cell, report: DeviceReport) -> str | None:
    """Returns why `cell` can't run on the device of `report`, or why its numbers would be wrong there.

    The reason is one line, and names an alternative if there is one. Returns None if there is no reason.
    """
    return next(CellFacts(cell, report).refusals(SKIPPED), None)


def why_unfit(cell: Cell, shape: images.Shape | None = None, num_train: int | None = None) -> str | None:
    """Returns why the network can't use the images of its data set, and what to change. Returns None if it can.

    Args:
        shape: shape of the prepared images; None: the data set's default.
        num_train: number of training images; None: unknown.
    """
    data = cell.data.name
    wanted = cell.data.train_images
    if wanted is not None and num_train is not None and wanted > num_train:
        return f"data.train_images={wanted}: {data} has only {num_train} training images here: use a smaller number"
    images_shape = cell.model.input_shape if data == RANDOM else shape or SHAPES.get(data)
    return None if images_shape is None else images.why_unfit(cell.model, images_shape, data)


class CellFacts(Asked):
    """The facts that the rules need about a cell and about the device that `report` describes."""

    places = {
        **{field.name: f"options.{field.name}" for field in fields(Options)},
        **{f"engine.{field.name}": f"keras.{field.name}" for field in fields(KerasSettings)},
        "engine.xla_processes": "xla_processes",
        "model": "model.word",
    }

    def __init__(self, cell: Cell, report: DeviceReport) -> None:
        super().__init__(cell)
        self.cell = cell
        self.report = report

    @property
    def option(self) -> str:
        """The first enabled option that changes the network, or changes how it runs. Empty if there is none."""
        return next(iter(self.cell.options.of_network), "")

    @cached_property
    def fused(self) -> bool:
        """Is true if XLA records a step and runs it as a whole.

        It is false for torch_tpu, which starts single operators.
        """
        return self.cell.device in XLA and (
            self.cell.keras is not None or TORCH_TPU not in self.report.details
        )

    @property
    def absent(self) -> str:
        """The reason why the device is missing. Empty if the device is present, or if it is a TPU in the cloud."""
        return "" if self.report.present or self._is_remote else str(self.report.reason)

    @property
    def _is_remote(self) -> bool:
        return self.holds("device=tpu engine.backend=tensorflow engine.tpu")

    @property
    def num_available(self) -> float:
        """The number of available devices. For a CPU, it is the number of usable cores."""
        return (
            math.inf if self._is_remote else int(self.report.details.get("usable_cores", self.report.count))
        )

    @property
    def uneven(self) -> bool:
        return bool(self.cell.batch_size % self.cell.devices)

    @property
    def unfit(self) -> str:
        return why_unfit(self.cell) or ""

    @property
    def instruction_sets(self) -> list[str]:
        return self.report.details.get("instruction_sets", "").split()

    @property
    def capability(self) -> float:
        """The GPU's compute capability; 0 if the driver does not report it."""
        return float(self.report.details.get("compute_capability", 0))

    @property
    def allocator_problem(self) -> str:
        return allocators.why_missing(self.cell.options.allocator) or ""

    @property
    def no_compiler(self) -> str:
        """The missing compiler (for a GPU, a C compiler; otherwise, a C++ compiler). Empty if it is installed."""
        variable, commands = ("CC", C) if self.cell.device == Device.gpu else ("CXX", CXX)
        if variable in os.environ:
            commands = [os.environ[variable]]
        return "" if any(map(shutil.which, commands)) else " or ".join(commands)

    @cached_property
    def needed(self) -> list[str]:
        """The modules that the cell's process imports."""
        cell = self.cell
        modules = ["msgspec", "numpy", "pynvml"]
        if cell.keras is not None:
            modules += ["tensorflow", "keras"]
        else:
            modules += ["torch", *MODULES.get(cell.engine, ())]
        if cell.engine in ON_TORCH and cell.device == Device.tpu and self.fused:
            modules.append("torch_xla")
        if cell.precision in QUANTIZED:
            modules += QUANTIZERS.get(cell.engine, ())
        if cell.model.library in LIBRARIES:
            modules.append(cell.model.library.value)
        if cell.data.pipeline == Pipeline.jpeg:
            modules.append("torchvision")
        return modules

    @cached_property
    def missing(self) -> str:
        """The first needed module that is not installed. Empty if none is missing, or if `python` is set."""
        lacking = (name for name in self.needed if packages.folder(name) is None)
        return "" if self.cell.python is not None else next(lacking, "")

    @property
    def install(self) -> str:
        return how_to_install(EXTRAS.get(self.missing, self.missing))

    @property
    def python_problem(self) -> str:
        """The reason why the interpreter that `python` names can't run the cell. Empty if it can run the cell."""
        if self.cell.python is None:
            return ""
        interpreter = interpreters.look(self.cell.python)
        least, below = interpreters.PYTHONS
        torch = interpreter.versions.get("torch") if "torch" in self.needed else None
        if not least <= _release(interpreter.version) < below or (
            torch and _release(torch) < interpreters.TORCH
        ):
            versions = " and torch ".join(filter(None, [interpreter.version, torch]))
            return f"it has Python {versions}, but accelbench needs {interpreters.SUPPORTED}"
        lacking = [
            packages.DISTRIBUTIONS.get(name, name) for name in self.needed if name not in interpreter.modules
        ]
        if lacking:
            install = f"{interpreters.executable(self.cell.python)} -m pip install {' '.join(lacking)}"
            return f"{', '.join(lacking)} not installed there: {install}"
        if self.cell.device not in (Device.cpu, Device.gpu):
            return (
                f"accelbench finds device={self.cell.device} only in its own environment: leave python= out"
            )
        return ""


def _release(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))
