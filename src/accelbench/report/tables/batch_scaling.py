"""Which batch to infer with, and on which device: study 003's comparison and summary, as tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accelbench.presentation import significant
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.study_comparison import one_per_setting
from accelbench.report.tables import device_pairs
from accelbench.report.tables.gpus import gpu_facts
from accelbench.report.tables.options import options_text
from accelbench.report.tables.table import Column, Entry, Table, count, number, tabulate_known, word
from accelbench.schema.ceilings import Ceilings, ceilings_in
from accelbench.schema.vocab import Device, Mode

LIMITS_MS = (10.0, 50.0, 200.0)
MIN_BATCHES = 3  # fewer support no sentence about batches


@dataclass(frozen=True)
class BatchGroup:
    """The ok inference cells that differ only in the batch, smallest batch first."""

    model: str
    device: str
    precision: str
    options: str | None
    cells: list[ReportedCell]

    def fastest(self, limit_ms: float | None = None) -> ReportedCell | None:
        """The cell of the highest throughput among those with a median latency of at most `limit_ms`."""
        return max(
            (cell for cell in self.cells if limit_ms is None or _is_within(cell, limit_ms)),
            key=lambda cell: cell.number("samples_per_s") or 0.0,
            default=None,
        )


def batch_groups(sweep: Sweep) -> list[BatchGroup]:
    """The groups of two batches or more."""
    found: dict[tuple[str, str, str, str | None], list[ReportedCell]] = {}
    inferring = one_per_setting(
        reported for reported in sweep.cells if reported.is_ok and reported.cell.mode == Mode.infer
    )
    cells = [reported for reported in inferring if reported.row["samples_per_s"] is not None]
    for reported in sorted(cells, key=lambda reported: reported.cell.batch_size):
        cell = reported.cell
        key = (cell.model.name, cell.device.value, cell.precision.value, options_text(reported.row))
        found.setdefault(key, []).append(reported)
    return [
        BatchGroup(*key, cells) for key, cells in found.items() if len({each.cell.batch_size for each in cells}) > 1
    ]


def _is_within(reported: ReportedCell, limit_ms: float) -> bool:
    latency = reported.number("latency_p50_ms")
    return latency is not None and latency <= limit_ms


def _best_batch(group: BatchGroup, limit_ms: float | None) -> Entry:
    fastest = group.fastest(limit_ms)
    return count(fastest.cell.batch_size if fastest else None)


def _best_rate(group: BatchGroup, limit_ms: float | None) -> Entry:
    fastest = group.fastest(limit_ms)
    return number(fastest.row["samples_per_s"] if fastest else None)


def _most(group: BatchGroup, column: str) -> Entry:
    known = [value for reported in group.cells if (value := reported.number(column)) is not None]
    return number(max(known, default=None))


def _limit_columns(limit_ms: float) -> list[Column[BatchGroup]]:
    return [
        Column(f"best batch within {limit_ms:g} ms", lambda group: _best_batch(group, limit_ms)),
        Column(f"samples/s within {limit_ms:g} ms", lambda group: _best_rate(group, limit_ms)),
    ]


def _of_fastest(group: BatchGroup, column: str) -> float | None:
    fastest = group.fastest()
    return fastest.number(column) if fastest else None


BEST_BATCH_COLUMNS: list[Column[BatchGroup]] = [
    Column("network", lambda group: word(group.model)),
    Column("device", lambda group: word(group.device)),
    Column("precision", lambda group: word(group.precision)),
    Column("options", lambda group: word(group.options)),
    Column("best batch", lambda group: _best_batch(group, None)),
    Column("samples/s", lambda group: _best_rate(group, None)),
    Column("latency p50 (ms)", lambda group: number(_of_fastest(group, "latency_p50_ms"))),
    *(column for limit_ms in LIMITS_MS for column in _limit_columns(limit_ms)),
    Column("peak device (MB)", lambda group: _most(group, "peak_device_mb")),
    Column("peak host (MB)", lambda group: _most(group, "peak_host_mb")),
    Column("parameters", lambda group: count(_of_fastest(group, "num_params"))),
]


def best_batch(sweep: Sweep) -> Table | None:
    """The batch of the highest throughput, with and without latency limits; None if no batches are compared."""
    notes = [
        "Best: the measured batch of the highest throughput. A latency limit applies to the median over batches that "
        "were each waited for; a dash: no batch is within the limit. Memory: the maximum over the batches."
    ]
    return tabulate_known("The best batch", BEST_BATCH_COLUMNS, batch_groups(sweep), notes)


def conclusions(sweep: Sweep) -> list[str]:
    """What the numbers say: which batch is fastest, of three or more, and which of two devices."""
    return [*_about_batches(sweep), *_about_devices(sweep)]


def _about_devices(sweep: Sweep) -> list[str]:
    """A sentence for each network, precision and options that infers on two devices, at its smallest and largest batch.

    Cells that differ only in the device are compared.
    """
    groups: dict[tuple[str, ...], dict[int, float]] = {}
    for devices in (*device_pairs.PAIRS[:3], (Device.xla_cpu, Device.cpu)):
        for pair in device_pairs.pairs(sweep, *devices):
            cell, ratio = pair.first.cell, pair.ratio("samples_per_s")
            if cell.mode == Mode.infer and ratio is not None:
                key = (cell.model.name, cell.precision, options_text(pair.first.row) or "", *devices)
                groups.setdefault(key, {}).setdefault(cell.batch_size, ratio)
    sentences = []
    for (model, precision, options, first, second), ratios in groups.items():
        what = f"{model} in {precision}" + (f", {options}" if options else "")
        smallest, largest = min(ratios), max(ratios)
        more = f", {significant(ratios[largest])} times with batch {largest}" if largest != smallest else ""
        speed = f"{significant(ratios[smallest])} times as fast as {second} with batch {smallest}"
        sentences.append(f"{what}: {first} is {speed}{more} (samples/s).")
    return sentences


def _about_batches(sweep: Sweep) -> list[str]:
    """A sentence for each network, device, precision and options with three batches or more."""
    sentences = []
    for group in batch_groups(sweep):
        rates = {reported.cell.batch_size: reported.number("samples_per_s") or 0.0 for reported in group.cells}
        if len(rates) < MIN_BATCHES:
            continue
        smallest, best = min(rates), max(rates, key=lambda batch: rates[batch])
        gain = f", {significant(rates[best] / rates[smallest])} times batch {smallest}'s" if best != smallest else ""
        least = next(batch for batch in sorted(rates) if rates[batch] >= 0.95 * rates[best])
        enough = f"; batch {least} comes within 5 % of it" if least != best else ""
        what = f"{group.model} on {group.device} in {group.precision}" + (f", {group.options}" if group.options else "")
        sentences.append(f"{what}: batch {best} is fastest, {significant(rates[best])} samples/s{gain}{enough}.")
    return sentences


@dataclass(frozen=True)
class DeviceFacts:
    """What a device is made of and what it was measured to do at most, as texts; None if unknown."""

    device: str
    name: str
    units: str | None
    memory: str | None
    instruction_sets: str | None
    compute_capability: str | None
    driver: str | None
    replicas: str
    flops: str | None
    memory_rate: str | None
    copy_rates: str | None
    launch: str | None


DEVICE_COLUMNS: list[Column[DeviceFacts]] = [
    Column("device", lambda facts: word(facts.device)),
    Column("name", lambda facts: word(facts.name)),
    Column("units", lambda facts: word(facts.units)),
    Column("memory", lambda facts: word(facts.memory)),
    Column("instruction sets", lambda facts: word(facts.instruction_sets)),
    Column("compute capability", lambda facts: word(facts.compute_capability)),
    Column("driver", lambda facts: word(facts.driver)),
    Column("replicas", lambda facts: word(facts.replicas)),
    Column("at most, GFLOP/s", lambda facts: word(facts.flops)),
    Column("memory, read and written", lambda facts: word(facts.memory_rate)),
    Column("from and to the host", lambda facts: word(facts.copy_rates)),
    Column("an operator's launch", lambda facts: word(facts.launch)),
]


def devices(sweep: Sweep) -> Table | None:
    """The hardware of each device that ran; None if nothing ran."""
    found = dict.fromkeys(facts for reported in sweep.cells if (facts := _device_facts(reported)) is not None)
    notes = [
        "At most: measured on the device, as the best of matrix products, linear layers and convolutions over shapes, "
        "layouts and libraries, with all cores."
    ]
    return tabulate_known("The devices that ran", DEVICE_COLUMNS, found, notes)


def _device_facts(reported: ReportedCell) -> DeviceFacts | None:
    """What the device of a cell is made of; None if the cell was not measured."""
    measured = reported.record.measurement if reported.record else None
    if reported.record is None or measured is None:
        return None
    machine = reported.record.environment.get("machine", {})
    on_host = reported.cell.device in ("cpu", "xla_cpu")
    ceilings = ceilings_in(reported.record.environment)
    gpus = gpu_facts(reported.record)
    return DeviceFacts(
        device=reported.cell.device.value,
        name=measured.device_name,
        units=_text(machine, "num_threads", "usable cores") if on_host else gpus.multiprocessors,
        memory=_text(machine, "memory_gb", "GB") if on_host else gpus.memory,
        instruction_sets=machine.get("instruction_sets") if on_host else None,
        compute_capability=gpus.compute_capability,
        driver=gpus.driver,
        replicas=str(measured.num_devices),
        flops=_rates(ceilings) if ceilings else None,
        memory_rate=f"{ceilings.memory_bytes_per_s / 1e9:.3g} GB/s" if ceilings else None,
        copy_rates=_copies(ceilings) if ceilings else None,
        launch=f"{ceilings.launch_s * 1e6:.3g} µs" if ceilings else None,
    )


def _rates(ceilings: Ceilings) -> str | None:
    """Of the precisions that were probed without other load."""
    known = {word: rate for word, rate in ceilings.flops_per_s.items() if word not in ceilings.disturbed}
    return ", ".join(f"{precision} {rate / 1e9:,.3g}" for precision, rate in known.items()) or None


def _copies(ceilings: Ceilings) -> str | None:
    rates = (ceilings.host_to_device_bytes_per_s, ceilings.device_to_host_bytes_per_s)
    known = [f"{rate / 1e9:.3g} GB/s" for rate in rates if rate is not None]
    return ", ".join(known) or None


def _text(machine: Mapping[str, Any], key: str, unit: str) -> str | None:
    value = machine.get(key)
    return f"{value} {unit}" if value is not None else None
