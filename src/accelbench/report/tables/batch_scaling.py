"""Which batch to infer with, and on what: study 003's comparison and summary, as tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from accelbench.presentation import significant
from accelbench.report.read import ReportedCell, Sweep
from accelbench.report.tables.options import named
from accelbench.report.tables.study_times import one_of_each
from accelbench.report.tables.table import Table, count, number, word
from accelbench.schema.ceilings import Ceilings, ceilings_in
from accelbench.schema.serialize import canonical_json
from accelbench.schema.vocab import Mode

LIMITS_MS = (10.0, 50.0, 200.0)


def groups(sweep: Sweep) -> dict[tuple[str, str, str, str | None], list[ReportedCell]]:
    """The ok inference cells by (model, device, precision, options), each in the order of their batches."""
    found: dict[tuple[str, str, str, str | None], list[ReportedCell]] = {}
    inferring = one_of_each(p for p in sweep.cells if p.is_ok and p.cell.mode == Mode.infer)
    cells = [p for p in inferring if p.row["samples_per_s"] is not None]
    for planned in sorted(cells, key=lambda planned: planned.cell.batch_size):
        cell = planned.cell
        key = (cell.model.name, cell.device.value, cell.precision.value, named(planned.row))
        found.setdefault(key, []).append(planned)
    return {key: cells for key, cells in found.items() if len({p.cell.batch_size for p in cells}) > 1}


def best_batch(sweep: Sweep) -> Table | None:
    """The batch of the highest throughput, free and below limits of latency; None where no batches are compared."""
    rows = []
    for (model, device, precision, options), cells in groups(sweep).items():
        fastest = _fastest(cells, None)
        assert fastest is not None
        row = [word(model), word(device), word(precision), word(options), count(fastest.cell.batch_size)]
        row += [number(fastest.row["samples_per_s"]), number(fastest.row["latency_p50_ms"])]
        for limit in LIMITS_MS:
            found = _fastest(cells, limit)
            row += [count(found.cell.batch_size if found else None)]
            row += [number(found.row["samples_per_s"] if found else None)]
        for column in ("peak_device_mb", "peak_host_mb"):
            known = [value for planned in cells if (value := planned.number(column)) is not None]
            row += [number(max(known, default=None))]
        row += [count(fastest.row["num_params"])]
        rows.append(row)
    headings = ["network", "device", "precision", "options", "best batch", "samples/s", "latency p50 (ms)"]
    for limit in LIMITS_MS:
        headings += [f"best batch within {limit:g} ms", f"samples/s within {limit:g} ms"]
    headings += ["peak device (MB)", "peak host (MB)", "parameters"]
    notes = [
        "Best is the highest throughput of the batches that were measured. A limit holds for the median of single "
        "batches, waited for; a dash: no batch keeps to it. Memory is the most over the batches."
    ]
    return Table(title="The best batch", headings=headings, rows=rows, notes=notes).known() if rows else None


def conclusions(sweep: Sweep) -> list[str]:
    """What the numbers say, a sentence for each network, device, precision and options with three batches or more."""
    sentences = []
    for (model, device, precision, options), cells in groups(sweep).items():
        rates = {p.cell.batch_size: p.number("samples_per_s") or 0.0 for p in cells}
        if len(rates) < 3:
            continue
        smallest, best = min(rates), max(rates, key=lambda batch: rates[batch])
        gain = f", {significant(rates[best] / rates[smallest])} times batch {smallest}'s" if best != smallest else ""
        least = next(batch for batch in sorted(rates) if rates[batch] >= 0.95 * rates[best])
        enough = f"; batch {least} comes within 5 % of it" if least != best else ""
        what = f"{model} on {device} in {precision}" + (f", {options}" if options else "")
        sentences.append(f"{what}: batch {best} is fastest, {significant(rates[best])} samples/s{gain}{enough}.")
    return sentences


def devices(sweep: Sweep) -> Table | None:
    """What the devices that ran are made of; None where nothing ran."""
    rows: dict[str, list[str | None]] = {}
    for planned in sweep.cells:
        measured = planned.record.measurement if planned.record else None
        if planned.record is None or measured is None:
            continue
        machine = planned.record.environment.get("machine", {})
        on_host = planned.cell.device in ("cpu", "xla_cpu")
        ceilings = ceilings_in(planned.record.environment)
        facts = [
            planned.cell.device.value,
            measured.device_name,
            _text(machine, "num_threads", "usable cores") if on_host else None,
            _text(machine, "memory_gb", "GB") if on_host else None,
            machine.get("instruction_sets") if on_host else None,
            str(measured.num_devices),
            _rates(ceilings.flops_per_s) if ceilings else None,
            f"{ceilings.memory_bytes_per_s / 1e9:.3g} GB/s" if ceilings else None,
            _copies(ceilings) if ceilings else None,
            f"{ceilings.launch_s * 1e6:.3g} µs" if ceilings else None,
        ]
        rows.setdefault(canonical_json(facts), facts)
    headings = ["device", "name", "units", "memory", "instruction sets", "replicas"]
    headings += ["at most, GFLOP/s", "memory, read and written", "from and to the host", "an operator's launch"]
    notes = [
        "What a device does at most was measured on it: the best of matrix products, linear layers and convolutions "
        "over shapes, layouts and libraries, with all cores."
    ]
    return (
        Table(
            title="The devices that ran",
            headings=headings,
            rows=[list(map(word, row)) for row in rows.values()],
            notes=notes,
        ).known()
        if rows
        else None
    )


def _rates(flops_per_s: Mapping[str, float]) -> str:
    return ", ".join(f"{precision} {rate / 1e9:,.3g}" for precision, rate in flops_per_s.items())


def _copies(ceilings: Ceilings) -> str | None:
    rates = (ceilings.host_to_device_bytes_per_s, ceilings.device_to_host_bytes_per_s)
    known = [f"{rate / 1e9:.3g} GB/s" for rate in rates if rate is not None]
    return ", ".join(known) or None


def _text(machine: Mapping[str, Any], key: str, unit: str) -> str | None:
    value = machine.get(key)
    return f"{value} {unit}" if value is not None else None


def _fastest(cells: Sequence[ReportedCell], limit_ms: float | None) -> ReportedCell | None:
    def is_within(planned: ReportedCell) -> bool:
        latency = planned.number("latency_p50_ms")
        return limit_ms is None or (latency is not None and latency <= limit_ms)

    return max(filter(is_within, cells), key=lambda planned: planned.number("samples_per_s") or 0.0, default=None)
