"""Collects evidence for estimates of time: earlier records, and the sizes of data sets."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from accelbench.data.arrays import read_counts
from accelbench.data.obtain import FileSet, find
from accelbench.engines.images import shape_in
from accelbench.errors import UserError
from accelbench.grid.estimate import Evidence, read_evidence
from accelbench.grid.fingerprint import fingerprint
from accelbench.project import Workplace
from accelbench.schema.cell import Cell
from accelbench.settings.params import data_settings
from accelbench.sweep.prober import PROBING_ENGINE


@dataclass(frozen=True)
class Inputs:
    """The facts about a data set that are known before it is prepared."""

    num_samples: tuple[int, int]  # samples of the training set and of the test set
    shape: tuple[int, ...]  # shape of an image, channels first; empty if unknown


def forecast(cells: Sequence[Cell], place: Workplace, profile: str | None = None) -> Evidence:
    """Collects evidence of how long `cells` take on this machine. `profile` decides the size of data sets."""
    evidence = read_evidence(place.root, fingerprint(PROBING_ENGINE)["machine"])
    for name in dict.fromkeys(cell.data.name for cell in cells):
        if (inputs := inputs_of(place, name, profile)) is not None:
            evidence.num_samples[name] = inputs.num_samples
    return evidence


def inputs_of(place: Workplace, name: str, profile: str | None) -> Inputs | None:
    """Returns the sizes of a prepared data set, or those that `profile` would give it. Returns None if unknown."""
    folder = place.data / name
    kept = {}
    wanted = {}
    with suppress(UserError):  # the user's own data, which have no settings there
        kept, wanted = (data_settings(place.project, name, of_profile) for of_profile in (None, profile))
    with suppress(UserError, OSError, ValueError, KeyError):  # it is not prepared
        if kept == wanted and (counts := read_counts(folder)):
            return Inputs((counts["train"], counts["test"]), shape_in(folder))
    data_set: Any = None
    with suppress(UserError):
        data_set = find(name)
    if not isinstance(data_set, FileSet):
        return None
    most, side = wanted.get("max_images"), wanted.get("image_size")
    train, test = data_set.num_samples
    share = min(1.0, most / (train + test)) if most else 1.0
    shape = (*data_set.shape[:-2], side, side) if side else data_set.shape
    return Inputs((round(share * train), round(share * test)), shape)
