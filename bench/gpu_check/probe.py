"""The device's ceilings, as a sweep probes them."""

import sys

from accelbench.devices.registry import look
from accelbench.grid.support import why_not
from accelbench.isolation.hosts import Hosts
from accelbench.schema.ceilings import TRUE_PRECISIONS
from accelbench.schema.vocab import Device, Mode, Precision
from bench.gpu_check import cases
from bench.gpu_check.findings import figure, problem


def main(device: Device) -> None:
    """Probes the device in each true precision that it supports."""
    cells = {word: cases.cell(device, cases.MLP, Mode.infer, word, 128) for word in TRUE_PRECISIONS}
    wanted = [word for word, cell in cells.items() if why_not(cell, look(device)) is None]
    with Hosts() as hosts:
        found = hosts.probe(cells[Precision.fp32], wanted)
    for word, rate in found.flops_per_s.items():
        figure(f"{word:<6} {rate / 1e12:>9.4g} TFLOP/s by {found.how[word]}")
    figure(f"memory {found.memory_bytes_per_s / 1e9:>9,.0f} GB/s")
    copies = {"to the device": found.host_to_device_bytes_per_s, "to the host": found.device_to_host_bytes_per_s}
    for name, rate in copies.items():
        if rate is not None:
            figure(f"copies {name} {rate / 1e9:.1f} GB/s")
    figure(f"launch {found.launch_s * 1e6:>9.2f} us; the probe took {found.seconds:.0f} s")
    for word in wanted:
        if word not in found.flops_per_s:
            problem(f"{word}: no kernel ran")
    if found.device != device:
        problem(f"{found.device} was probed instead of {device}")


if __name__ == "__main__":
    main(Device(sys.argv[1]))
