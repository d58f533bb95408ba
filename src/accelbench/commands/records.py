"""What commands that read records share: the folder that is read if the user names none, and `--price-per-hour`."""

import re
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from accelbench.commands.command import Context, flag
from accelbench.errors import UnknownChoiceError, UserError
from accelbench.project import RECORDS, RESULTS, RUNS, Workplace
from accelbench.schema.plan_file import sweep_folders
from accelbench.schema.record import read_all
from accelbench.schema.vocab import Device, Status

if TYPE_CHECKING:
    from accelbench.judging.costs import Cost
    from accelbench.report.read import Sweep

FOLDER = "records: results (a project's default), or a folder under runs/ (else the newest)"
PRICE = flag("--price-per-hour", metavar="2.5", help="an hour's price, or for each device: gpu=2.5,cpu=0.1")
FIGURE = re.compile(r"\d{1,12}|\d{0,12}\.\d{1,12}")


def default_folder(place: Workplace, context: Context) -> str:
    """The folder, below `place.root`; says which one it is if it is not always the same.

    In a project that has results it is results/; elsewhere the folder below runs/ with the newest record. Raises
    UserError: there are no records.
    """
    if place.project is not None and sweep_folders(place.root / RESULTS):
        return RESULTS
    folders: dict[Path, float] = {}  # -> when its newest record was written
    for folder in sweep_folders(place.root / RUNS):
        for path, _ in read_all(folder.glob(RECORDS)).by_path():  # another program's files are no records
            folders[folder] = max(folders.get(folder, 0.0), path.stat().st_mtime)
    if not folders:
        where = f"in {RESULTS}/ or below {RUNS}/" if place.project is not None else f"below {RUNS}/ here"
        raise UserError(f"no records {where}: measure something first, or name a folder of records")
    name = str(max(folders, key=lambda folder: folders[folder]).relative_to(place.root))
    others = f", the newest of {len(folders)} in {RUNS}/: name another to read it" if len(folders) > 1 else ""
    context.say(f"Records: {name}{others}")
    return name


def is_results(place: Workplace, name: str) -> bool:
    """Whether the folder `name` is that of the project's results."""
    return place.project is not None and Path(name) == Path(RESULTS)


def report_folder(place: Workplace, name: str) -> Path:
    """The folder of the report on the records in the folder `name`."""
    return (place.root if is_results(place, name) else Path(name)) / "report"


def costs(chosen: Namespace, project: Path | None) -> "dict[Device, Cost]":
    """The costs of the project, if there is one, with the prices that the flag gives. Raises UserError."""
    from accelbench.judging.costs import Cost

    found, text = dict[Device, Cost](), chosen.price_per_hour
    if project is not None:
        from accelbench.settings import params  # here, since it imports Hydra

        found = params.costs(project)
    parts = [] if text is None else [part.rpartition("=") for part in text.split(",")]
    names = [name for name, _, _ in parts]
    for name, named, number in parts:
        if named and name not in list(Device):
            raise UnknownChoiceError("--price-per-hour", name, Device)
        is_bare = not named and len(parts) > 1
        if not (FIGURE.fullmatch(number) and float(number)) or is_bare or names.count(name) > 1:
            wanted = "a price above 0 in plain digits, such as 2.5, or one for each device: gpu=2.5,cpu=0.1"
            raise UserError(f"--price-per-hour {text}: should be {wanted}")
        for device in [Device(name)] if named else Device:
            found[device] = replace(found.get(device, Cost()), price_per_hour=float(number))
    return found


def check_devices(chosen: Namespace, context: Context, sweeps: "Sequence[Sweep]") -> None:
    """Says which prices are of no ok record of the sweeps. Raises UserError: one price for several devices."""
    text = chosen.price_per_hour
    ran = [record for sweep in sweeps for record in sweep.records if record.status == Status.ok]
    measured = sorted({record.cell.device.value for record in ran})
    if text is not None and "=" not in text and len(measured) > 1:
        wanted = ",".join(f"{device}={text}" for device in measured)
        raise UserError(f"--price-per-hour {text}: the records are of several devices: name each, such as {wanted}")
    if absent := [part for part in (text or "").split(",") if "=" in part and part.partition("=")[0] not in measured]:
        context.say(f"--price-per-hour {','.join(absent)}: no ok record is of that device")
