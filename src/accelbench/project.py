"""The folder where accelbench works, a project or any other folder, and the names of the files there."""

import getpass
import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from accelbench.errors import UserError

# The names of a project's files. No other module spells them.
PARAMS = "params.yaml"
ENVIRONMENT = "environment.json"  # fingerprint of machine, versions and code; every sweep depends on it
RETRIES = "retries"  # folder with a file for each suite: the list of its cells to measure again
CEILINGS = "ceilings.json"  # highest speeds that a probe reached on each device
PLAN = "plan.json"  # cells of a sweep
CONFIRMED = "confirmed"  # folder beside results/ for repeats that decide which of two cells is faster
RESULTS, RUNS = "results", "runs"  # folder of the pipeline's records; folder of the command line's records
RECORD_FOLDERS = (RESULTS, CONFIRMED, RUNS)  # folders of a project's records
SAFETENSORS = ".safetensors"  # ending of files of weights
REQUESTS = ".requests.npy"  # ending of the file beside a record with the raw times of its requests
TORCH_FILES = (".pth", ".pt", ".ckpt", ".bin")  # endings of files that torch.load reads
COMPARISON = "compare.json"  # the side of a comparison that each record of a folder belongs to
RACE = "race.json"  # answers of a search for the best cell
SENT = "sent.pickle"  # objects that `accelbench.measure` sends to its process
MANIFEST = "manifest.json"  # description of a prepared data set
RECORDS = f"{'[0-9a-f]' * 12}-{'[0-9a-f]' * 8}.json"  # the pattern of `Record.name`
PACKAGE = Path(__file__).resolve().parent
# The key `suites` in a project's params.yaml. Projects that only use DVC do not have this key. The file is searched as
# text. So a folder with invalid YAML is still a project, and the user gets the YAML error.
SUITES = re.compile(r"""^(["']?)suites\1\s*:""", re.MULTILINE)
# A word in our conf/config.yaml; a conf/ without it belongs to another program.
OUR_SCHEMA = "accelbench_schema"


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """The folders in which a command reads and writes its files."""

    # The project's folder; outside of a project the current folder. Records and reports are below it.
    root: Path
    # The project's folder; None outside of a project. Without a project no params.yaml is read.
    project: Path | None
    store: Path  # folder of MLflow's database and its files
    conf: Path
    data: Path  # folder of the prepared data sets
    # Folder of ceilings.json; the original files of data sets are downloaded to a folder below it.
    cache: Path

    @classmethod
    def of_project(cls, root: Path) -> "Workplace":
        """Returns the folders of the project in `root`.

        `store` and `cache` are in the main checkout, so that they outlive a queued DVC experiment.
        """
        kept = Path(os.environ.get("DVC_ROOT") or root)
        return cls(root=root, project=root, store=kept, conf=_conf(root), data=root / "data", cache=kept)

    @classmethod
    def outside(cls, folder: Path) -> "Workplace":
        """Returns the workplace in a `folder` that is no project. Its data sets are shared with all such workplaces."""
        import platformdirs  # not at the top: a cell's process does not need it

        cache = platformdirs.user_cache_path("accelbench")
        return cls(
            root=folder, project=None, store=folder, conf=_conf(None), data=cache / "data", cache=cache
        )

    def with_data(self, folder: str | None) -> "Workplace":
        """Returns a copy with its data sets in `folder`, the value of `data.root`. If that is None, nothing changes."""
        return (
            self if folder is None else replace(self, data=Path(os.path.abspath(os.path.expanduser(folder))))
        )


def workplace() -> Workplace:
    """Returns the nearest project, in the current folder or above. If there is none, returns the current folder."""
    root = project_folder()
    return Workplace.of_project(root) if root else Workplace.outside(Path.cwd())


def project_folder() -> Path | None:
    """Returns the folder of the nearest project, in the current folder or above. Returns None if there is none."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if SUITES.search(_text(folder / PARAMS))), None)


def pipelines_place() -> Workplace:
    """Returns the project that a pipeline's stage runs in. Raises UserError: the current folder is in no project."""
    place = workplace()
    if place.project is None:
        raise UserError(
            f"{place.root} and the folders above it have no {PARAMS} with suites: type `accelbench init`"
        )
    return place


def _conf(project: Path | None) -> Path:
    if project is not None and OUR_SCHEMA in _text(project / "conf" / "config.yaml"):
        return project / "conf"
    return (PACKAGE if (PACKAGE / "conf").is_dir() else PACKAGE.parents[1]) / "conf"


def resolved(path: Path) -> Path:
    """Resolves a path without the RuntimeError that `Path.resolve` raises for circular links before Python 3.13."""
    return Path(os.path.realpath(path))


def _text(path: Path) -> str:
    """Returns the text of a file. Returns "" if there is no such file, or if the user must not read it."""
    # After any other error an empty text could be wrong: a project would count as an ordinary folder.
    with suppress(PermissionError):
        if path.is_file():
            return path.read_text(errors="replace")
    return ""


def mend_environment() -> None:
    """Sets a user name and a home folder if they are missing. Libraries need them.

    They are set for this process and its children.
    """
    try:
        getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user without an entry in its passwd file
        os.environ["LOGNAME"] = f"user{os.getuid()}"
    if not os.path.isabs(os.path.expanduser("~")):
        os.environ["HOME"] = "/"
    if os.environ.get("COLUMNS") == "0":  # at which rich prints nothing
        del os.environ["COLUMNS"]


def check_inside(path: Path, root: Path) -> None:
    """Raises UserError if `path` is outside of `root` when links are followed, or is a link to no folder."""
    target = resolved(path)
    if not target.is_relative_to(resolved(root)) or (path.is_symlink() and not target.is_dir()):
        raise UserError(f"{shown(path)}: is a link to {target}. accelbench writes only to folders in {root}")


def shown(path: Path) -> str:
    """Returns `path` as it is shown in messages: relative if it is below the current folder, otherwise unchanged."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
