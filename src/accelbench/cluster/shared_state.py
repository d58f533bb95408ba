"""The folder that a controller and its jobs share while a sweep is spread over a cluster.

It lies on the shared file system, is its owner's alone, and holds a folder for each round of submissions:

    .accelbench/runs/mine/<round>/part-<n>.json          the cells of a job
    .accelbench/runs/mine/<round>/jobs.json              the jobs
    .accelbench/runs/mine/<round>/claims/<cell id>.<n>   see `job.Claims`
    .accelbench/runs/mine/<round>/jobs/<job>/mine/       the records that the job has finished
    .accelbench/runs/mine/<round>/work/<job>/            the record that it works on
    .accelbench/runs/mine/<round>/problems/<job>.txt     why it could not go on

The folder of a round is removed once its records were merged into the sweep's folder, its jobs have ended, and each of
its cells has a record.
"""

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from accelbench.lock import hold
from accelbench.project import CLUSTER, RECORD_FOLDERS, RECORDS, SAFETENSORS, Workplace, resolved
from accelbench.schema.cell import Cell
from accelbench.schema.serialize import load, read_json, write_json
from accelbench.settings.config import SweepOptions

PATIENCE_S = 600.0  # of a controller while another one plans and submits


@dataclass(frozen=True, kw_only=True)
class Part:
    """What a job is given, as JSON."""

    name: str  # of the sweep's folder
    sweep_id: str
    project: str  # the current folder of the controller, from which it found the project
    options: SweepOptions
    cells: list[Cell]  # in the order in which the job takes them
    labels: list[str]


@dataclass(frozen=True)
class Round:
    """The folder of one round of submissions, for the sweep in a folder called `name`."""

    folder: Path
    name: str

    @property
    def job_name(self) -> str:
        """Under which the jobs of the round, and no others, are submitted."""
        return f"accelbench-{self.name}-{self.folder.name.rpartition('-')[2]}"

    def finished(self, job: str) -> Path:
        """The folder of the records that the job has finished."""
        return self.folder / "jobs" / job / self.name

    def is_done(self, job: str, cell_id: str) -> bool:
        return any(self.finished(job).glob(f"{cell_id}-*.json"))

    def sources(self) -> list[Path]:
        """The folders of finished records, of the jobs that have some."""
        # The name is no pattern: it may hold characters of one.
        folders = (job / self.name for job in sorted((self.folder / "jobs").glob("*")))
        return [folder for folder in folders if any(folder.glob(RECORDS))]

    def problems(self) -> dict[str, str]:
        return {path.stem: path.read_text().strip() for path in sorted((self.folder / "problems").glob("*.txt"))}

    def parts(self) -> list[Path]:
        return list(self.folder.glob("part-*.json"))

    def cell_ids(self) -> set[str]:
        return {cell.id for path in self.parts() for cell in read_part(path).cells}

    def jobs(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return list(map(str, read_json(self.folder / "jobs.json")))
        return []

    def write_jobs(self, jobs: list[str]) -> None:
        write_json(self.folder / "jobs.json", jobs)

    def is_in(self, folder: Path) -> bool:
        """Whether each record of the round has one of its name in `folder`."""
        return all((folder / path.name).exists() for path in (self.folder / "jobs").rglob(RECORDS))


def read_part(path: Path) -> Part:
    """Reads a part; raises a ValueError if the file holds no part."""
    return load(Part, read_json(path))


class SharedState:
    """The shared folder of the sweep in `folder`."""

    def __init__(self, place: Workplace, folder: Path) -> None:
        self._name = folder.name
        self.folder = place.root / CLUSTER / _below(place.root, folder)

    @contextlib.contextmanager
    def locked(self, patience_s: float = PATIENCE_S) -> Iterator[None]:
        """Holds the lock of the controllers of this sweep; raises a BusyError if another one held it all the time."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)  # submitit's pickles run code when they are read
        with hold(self.folder / "lock", "a sweep into this folder", patience_s=patience_s, for_all_users=False):
            yield

    def rounds(self) -> list[Round]:
        return [Round(path, self._name) for path in sorted(self.folder.glob("round-*"))]

    def new_round(self) -> Round:
        """A new round, with an empty folder."""
        number = max((int(each.folder.name.split("-")[1]) for each in self.rounds()), default=0) + 1
        # A name that no earlier round had: jobs of one that was removed may still be there.
        new = Round(self.folder / f"round-{number:06}-{secrets.token_hex(4)}", self._name)
        new.folder.mkdir(mode=0o700)
        return new

    def set_aside(self, record: Path) -> None:
        """Keeps a record that is measured again, with its weights, out of the way of the new one.

        Rounds that are still there lose it too: they would bring it back. No job runs that could add one.
        """
        copies = [source / record.name for each in self.rounds() for source in each.sources()]
        aside = self.folder / "replaced"
        aside.mkdir(exist_ok=True)
        for path in (record, *(copy for copy in copies if copy.exists())):
            names = (f"{record.stem}{f'-{number}' * (number > 1)}" for number in count(1))
            name = next(each for each in names if not (aside / f"{each}.json").exists())
            for ending in (SAFETENSORS, ".json"):
                if path.with_suffix(ending).exists():
                    path.with_suffix(ending).replace(aside / f"{name}{ending}")


def _below(root: Path, folder: Path) -> Path:
    """The folder's path below the project, where runs/ may be a link to another disk."""
    real = resolved(folder)
    for name in RECORD_FOLDERS:
        if real.is_relative_to(parent := resolved(root / name)):
            return name / real.relative_to(parent)
    return real.relative_to(resolved(root))
