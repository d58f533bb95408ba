"""`accelbench doctor`: prints what this machine has and can do, after probing it if asked."""

import functools

from rich.console import Console

from accelbench import lock
from accelbench.devices.registry import look
from accelbench.doctor import full, short
from accelbench.doctor.facts import Facts, cell_of
from accelbench.grid.fingerprint import fingerprint
from accelbench.isolation.hosts import Hosts
from accelbench.project import Workplace
from accelbench.schema.ceilings import TRUE_PRECISIONS
from accelbench.schema.vocab import Device, Mode, Precision
from accelbench.schema.workload import ModelSpec
from accelbench.settings.config import SweepOptions
from accelbench.sweep.prober import PROBING_ENGINE, Prober
from accelbench.sweep.quiet import Quiet, is_allowed


def show(place: Workplace, console: Console | None = None, *, probe: bool = False, whole: bool = False) -> None:
    """Prints what this machine has and can do; as plain text if the output is not a terminal.

    Args:
        probe: whether to measure the ceilings of each device first.
        whole: whether to print all of it, rather than a summary of at most 12 lines.

    Raises:
        UserError: another measurement is under way, or a file in conf/model is not readable.
    """
    console = console or Console()
    if probe:
        _measure_ceilings(place, console)
    console.print((full if whole else short).view(Facts.of(place)))


def _measure_ceilings(place: Workplace, console: Console) -> None:
    say = functools.partial(console.print, markup=False)
    with lock.hold_measuring(say), Hosts() as hosts:
        quiet = Quiet(0.0 if is_allowed() else SweepOptions.quiet_s, say)
        prober = Prober(hosts, place.cache, fingerprint(PROBING_ENGINE), say, quiet=quiet)
        for device in Device:
            if look(device).present:
                prober.probe(cell_of(device, Precision.fp32, Mode.infer, ModelSpec(name="mlp")), TRUE_PRECISIONS)
