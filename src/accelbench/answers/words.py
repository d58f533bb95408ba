"""Words for a cell's workload and settings. All reports and interfaces show the same words."""

import re
from collections.abc import Iterable

from accelbench.answers.cells import Process
from accelbench.judging.verdict import DISTURBED
from accelbench.presentation import UNKNOWN, counted, significant
from accelbench.schema.cell import (
    Allocator,
    Augment,
    Cell,
    Definition,
    Device,
    Engine,
    Library,
    Mode,
    Options,
    Pipeline,
    Protocol,
    folder_name,
)
from accelbench.schema.record import Row, number_of

OWN = "accelbench's own"  # the environment of cells without `python`
FLAGS = [name for name in vars(Options()) if name != "allocator"]
# A dash between words of a label, but not in `x=-1` or `1e-05`.
WORD_END = re.compile(r"(?<![=,:\[])(?<!\de)-")
ENGINES = {engine: engine.value for engine in Engine} | {
    Engine.pytorch: "PyTorch",
    Engine.lightning: "Lightning",
    Engine.keras: "Keras",
    Engine.onnxruntime: "ONNX Runtime",
    Engine.openvino: "OpenVINO",
    Engine.aotinductor: "AOTInductor",
}
DEVICES = {device: device.upper() for device in Device} | {Device.xla_cpu: "XLA"}


def model_text(process: Process) -> str:
    """Returns the model's name and arguments.

    For accelbench's own networks, it is only the name, because conf/ fixes their arguments.
    """
    arguments = process.row["arguments"] if process.cell.model.library != Library.accelbench else None
    return f"{process.cell.model.name}({arguments})" if arguments else process.cell.model.name


def data_text(process: Process) -> str:
    """Names the data and the input's shape, and the pipeline and the protocol if they are unusual."""
    row, cell = process.row, process.cell
    data = str(row["data"]) + (f" ({cell.model.batch.rpartition('.')[2]})" if cell.model.batch else "")
    if row["stand_in"]:
        data += " (stand-in)"
    words = [data, row["input_shape"], feeding_text(process)]
    return " ".join(str(part) for part in words if part)


def feeding_text(process: Process) -> str:
    """Names the pipeline, the augmentation and the protocol if they are not the default, such as `jpeg flip fit`."""
    cell = process.cell
    words = [f"{cell.data.train_images:,} images"] if cell.data.train_images else []
    if cell.data.pipeline != Pipeline.array:
        words.append(cell.data.pipeline)
    if cell.data.augment != Augment.none:
        words.append(cell.data.augment)
    if cell.protocol == Protocol.target:
        is_fixed = cell.target.definition == Definition.fixed
        words.append(
            f"to {cell.target.text} ({f'fixed length, epochs={cell.epochs}' if is_fixed else 'first passage'})"
        )
    elif cell.protocol != Protocol.window:
        words.append(cell.protocol)
    return " ".join(words)


def environment_names(processes: Iterable[Process]) -> dict[str, str]:
    """Returns `measured_key` -> the environment's name, such as `new`. It is empty if there is only one."""
    environments = {process.measured_key: process.cell.python for process in processes if process.record}
    if len(set(environments.values())) < 2:
        return {}
    return {key: folder_name(python) if python else OWN for key, python in environments.items()}


def setting_name(
    process: Process, *, has_batch: bool = False, has_device: bool = False, environment: str | None = None
) -> str:
    """Names a cell's setting, such as `OpenVINO int8 on GPU b16, freeze`.

    Args:
        has_batch: whether to name the batch size.
        has_device: whether to name the device.
        environment: the name of the cell's Python environment. If it is None, the environment's folder is named.
    """
    row = process.row | ({"python": environment} if environment else {})
    cell = process.cell
    words = [engine_text(row).replace(cell.engine, ENGINES[cell.engine], 1), cell.precision.value]
    if has_device:
        words.append(f"on {DEVICES[cell.device]}")
    if has_batch:
        words.append(f"b{cell.batch_size}")
    return ", ".join(filter(None, [" ".join(words), options_text(row | {"engine": Engine.pytorch})]))


def speed_unit(cell: Cell) -> tuple[int, str]:
    """Returns (number of units in a sample, unit of the cell's speed), such as `(32, "tokens/s")`."""
    return (cell.generate.new_tokens, "tokens/s") if cell.mode == Mode.generate else (1, "samples/s")


def speed_text(cell: Cell, *rates: float | None, digits: int = 3) -> str:
    """Formats a speed of a cell, such as `401 samples/s`, or several, such as `13.5 to 14.5 samples/s`."""
    size, unit = speed_unit(cell)
    if all(rate is None for rate in rates):
        return UNKNOWN
    return f"{' to '.join(significant(rate and size * rate, digits) for rate in rates)} {unit}"


def disturbed_text(process: Process) -> str:
    """What disturbed a process, such as `disturbed: others used 1.8 of 2 cores`."""
    return f"{DISTURBED}: {process.disturbed}"


def token_times(row: Row) -> str:
    """Text such as `first token after 24.9 ms, 17.2 ms a token`. Empty if the cell generates no tokens."""
    first, later = number_of(row, "ttft_ms"), number_of(row, "tpot_p50_ms")
    per_token = "" if later is None else f", {significant(later)} ms a token"
    return "" if first is None else f"first token after {significant(first)} ms{per_token}"


def options_text(row: Row) -> str | None:
    """Names the options in a row of `cells.csv` that are on, such as `channels_last + compile`. None if all are off.

    It also names these settings, if they were set: the devices if there are several, the number of threads, the Python
    environment, and any engine except PyTorch.
    """
    enabled = [switches_text(row)]
    if row["scaling"] is not None:
        per_device = ", a process each" if row["xla_processes"] else ""
        enabled.append(f"{row['devices']} devices ({row['scaling']}{per_device})")
    if row["asked_threads"] is not None:
        enabled.append(counted(int(row["asked_threads"]), "thread"))
    if row["engine"] != Engine.pytorch:
        enabled.append(engine_text(row))
    if row["python"] is not None:
        enabled.append(folder_name(str(row["python"])))
    return " + ".join(filter(None, enabled)) or None


def switches_text(row: Row) -> str:
    """Names the options of `schema.cell.Options` that are on. Empty if all are off."""
    enabled = [name for name in FLAGS if row[name]]
    if row["allocator"] != Allocator.default:
        enabled.append(str(row["allocator"]))
    return " + ".join(enabled)


def engine_text(row: Row) -> str:
    """The engine with its own settings, such as `keras jit_compile`."""
    words = [str(row["engine"])]
    if row["jit_compile"]:
        words.append("jit_compile")
    if row["steps_per_execution"] not in (None, 1):
        words.append(f"{row['steps_per_execution']} steps per execution")
    if row["xla_processes"]:
        words.append("xla_processes")
    return " ".join(words)


def setting_words(cell: Cell, label: str) -> list[str]:
    """Returns a label's words: engine, device, precision, batch, then others except model, mode and `repeat`."""
    engine = cell.engine.value
    batch = f"b{cell.batch_size}"
    before, _, others = label.partition(f"-{cell.precision}-{batch}-{cell.mode}")
    words = [word for word in WORD_END.split(others) if word not in ("", engine, f"r{cell.repeat}")]
    return [engine, before.rpartition("-")[2], cell.precision.value, batch, *words]
