"""Collects evidence for estimates of time: records, or the work of a network and the peak rates of its device."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from accelbench import lock
from accelbench.data.arrays import read_classes, read_counts
from accelbench.data.obtain import FileSet, find
from accelbench.engines.images import shape_in
from accelbench.errors import BusyError, UserError
from accelbench.grid.estimate import Evidence, Inputs, read_evidence
from accelbench.grid.fingerprint import fingerprint
from accelbench.isolation.hosts import Hosts
from accelbench.project import Workplace
from accelbench.schema.ceilings import read_ceilings
from accelbench.schema.cell import Cell
from accelbench.schema.vocab import Device
from accelbench.settings.params import data_settings
from accelbench.sweep.context import paced
from accelbench.sweep.prober import PROBING_ENGINE, Prober


def forecast(
    cells: Sequence[Cell], hosts: Hosts, place: Workplace, say: Callable[[str], None], profile: str | None = None
) -> Evidence:
    """Collects evidence of how long `cells` take on this machine. `profile` decides the size of data sets."""
    # If a network was never measured, its work is counted and its device probed, unless another sweep runs meanwhile.
    environment = fingerprint(PROBING_ENGINE)
    evidence = read_evidence(place.root, environment["machine"])
    evidence.ceilings |= {Device(word): kept for word, kept in read_ceilings(place.cache, environment).items()}
    note_inputs(evidence, cells, place, profile)
    if unmeasured := evidence.unmeasured(cells):
        try:
            with lock.hold_measuring(lambda line: None, patience_s=0.0):
                complete(evidence, cells, Prober(hosts, place.cache, environment, say, unmeasured))
        except BusyError:
            say("Another measurement is running. Until it ends, a network without a record may get no estimate.")
    return evidence


def complete(evidence: Evidence, cells: Sequence[Cell], prober: Prober) -> None:
    """Probes the devices and counts the work of networks without a record. Do not call it during a measurement."""
    unmeasured = evidence.unmeasured(cells)
    for device, cell in {cell.device: cell for cell in unmeasured}.items():
        if (ceilings := prober.ceilings(cell)) is not None:
            evidence.ceilings[device] = ceilings
    counted = [(cell, evidence.counted_as(cell)) for cell in evidence.uncounted(unmeasured)]
    for _, stand_in in counted:  # the frameworks are imported in parallel
        prober.hosts.start(stand_in)
    for cell, stand_in in paced(counted, prober.say, "Counts the work of network"):
        evidence.learn(cell, prober.hosts.count(stand_in))


def note_inputs(evidence: Evidence, cells: Sequence[Cell], place: Workplace, profile: str | None = None) -> None:
    """Adds the sizes of the data sets of `cells`."""
    for name in dict.fromkeys(cell.data.name for cell in cells):
        if (inputs := inputs_of(place, name, profile)) is not None:
            evidence.inputs[name] = inputs


def inputs_of(place: Workplace, name: str, profile: str | None) -> Inputs | None:
    """Returns the sizes of a prepared data set, or those that `profile` would give it. Returns None if unknown."""
    folder = place.data / name
    kept = {}
    wanted = {}
    with suppress(UserError):  # the user's own data, which have no settings there
        kept, wanted = (data_settings(place.project, name, of_profile) for of_profile in (None, profile))
    with suppress(UserError, OSError, ValueError, KeyError):  # it is not prepared
        if kept == wanted and (counts := read_counts(folder)):
            return Inputs((counts["train"], counts["test"]), shape_in(folder), len(read_classes(folder)))
    data_set: Any = None
    with suppress(UserError):
        data_set = find(name)
    if not isinstance(data_set, FileSet):
        return None
    most, side = wanted.get("max_images"), wanted.get("image_size")
    train, test = data_set.num_samples
    share = min(1.0, most / (train + test)) if most else 1.0
    shape = (*data_set.shape[:-2], side, side) if side else data_set.shape
    return Inputs((round(share * train), round(share * test)), shape, len(data_set.classes))
