"""Compares the devices of a study with our devices."""

from collections.abc import Iterator
from typing import Any

from accelbench.presentation import counted
from accelbench.report.read import Sweep
from accelbench.report.table import Table, number, tabulate_known
from accelbench.schema.ceilings import ceilings_in
from accelbench.schema.cell import Device
from accelbench.schema.measurement import Machine
from five_studies import published
from five_studies.comparison import measurement_of
from five_studies.published import Line, by_place

COLUMNS = by_place(
    "whose",
    "device",
    "name",
    "what it has",
    "measured: fp32 (TFLOP/s)",
    "measured: bf16 (TFLOP/s)",
    "measured: memory (GB/s)",
)
NOTES = [
    "The study's devices are described as in its text or data. Measured are the highest speeds that the probe reached.",
]


def table(sweep: Sweep) -> Table | None:
    """The study's devices, and the devices of our cells. None if the study names no devices."""
    theirs: list[Line] = [["published", *each, None, None, None] for each in published.devices(sweep.study)]
    return tabulate_known("Devices", COLUMNS, [*theirs, *_ours(sweep)], NOTES) if theirs else None


def _ours(sweep: Sweep) -> Iterator[Line]:
    seen = set()
    for reported in sweep.cells:
        measured = measurement_of(reported)
        device = reported.cell.device
        if measured is None or reported.record is None or (device, measured.device_name) in seen:
            continue
        seen.add((device, measured.device_name))
        environment = reported.record.environment
        found = ceilings_in(environment)
        rates: list[Any] = [None] * 3
        if found is not None:
            rates = [found.ceiling_of("fp32"), found.ceiling_of("bf16"), 1000 * found.memory_bytes_per_s]
        has = _has(environment.get("machine", {}), device)
        yield ["ours", device, measured.device_name, has, *(number(rate and rate / 1e12) for rate in rates)]


def _has(machine: Machine, device: Device) -> str:
    """The description of a device, from the machine in a record."""
    if device == Device.tpu:
        chips = machine.get("tpus", [])
        return counted(len(chips), "chip") if chips else ""
    if device == Device.gpu:
        details: dict[str, Any] = dict(next(iter(machine.get("gpu_details", [])), {}))
        return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in details.items() if value is not None)
    numbers = {"core": machine.get("num_cores"), "thread": machine.get("num_threads")}
    return ", ".join(counted(num, name) for name, num in numbers.items() if num is not None)
