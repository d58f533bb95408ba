"""Where accelbench works: in a project of its own or in any other folder; and the names of the files there."""

import getpass
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from accelbench.errors import UserError

# The names of a project's files. No other module spells them.
PARAMS = "params.yaml"
ENVIRONMENT = "environment.json"  # the fingerprint of machine, versions and code, which every sweep depends on
RETRIES = "retries"  # the folder of the lists of cells that are measured again, one for each suite
CEILINGS = "ceilings.json"  # what each device was seen to do at most
PLAN = "plan.json"  # the cells that a sweep wants
CONFIRMED = "confirmed"  # the folder beside results/ for the repeats that say which of two cells is faster
RESULTS, RUNS = "results", "runs"  # the folders of the pipeline's records, and of the command line's
CLUSTER = ".accelbench"  # the folder of what the jobs of a cluster share while they measure
RECORD_FOLDERS = (RESULTS, CONFIRMED, RUNS)  # where the records of a project are
SAFETENSORS = ".safetensors"  # the ending of files of weights
REQUESTS = ".requests.npy"  # of the raw times of requests, beside a record
MLLOG = ".mllog"  # of the events of a training to a target, beside a record, as MLPerf logs them
TORCH_FILES = (".pth", ".pt", ".ckpt", ".bin")  # those of files that torch.load reads
COMPARISON = "compare.json"  # which records of a folder belong to which side of a comparison
REPLAY = "replay.json"  # what a replay says of another's claims
RACE = "race.json"  # how a search for the best cell went
SENT = "sent.pickle"  # what `accelbench.measure` sends to its process
MANIFEST = "manifest.json"  # of a prepared data set
RECORDS = f"{'[0-9a-f]' * 12}-{'[0-9a-f]' * 8}.json"  # the pattern of `Record.name`
MAX_READ = 1_000_000  # characters, of files that are looked at to find out where a project is
MIN_COLUMNS, MAX_COLUMNS = 40, 1000  # of a terminal
PACKAGE = Path(__file__).resolve().parent
OUR_SCHEMA = "accelbench_schema"  # in conf/config.yaml: another conf/ belongs to another program


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """Where a command finds and leaves its files."""

    root: Path  # the project's folder; outside of a project the current one. Records and reports are below it
    project: Path | None  # the project's folder; None outside of a project, where no params.yaml counts
    store: Path  # of MLflow's database and of its files
    conf: Path
    data: Path  # of the prepared data sets
    cache: Path  # of ceilings.json; original files of data sets are looked for, and downloaded, below it

    @classmethod
    def of_project(cls, root: Path) -> "Workplace":
        """The project in `root`. In a queued experiment, files that must outlive it are in DVC's main checkout."""
        kept = Path(os.environ.get("DVC_ROOT") or root)
        return cls(root=root, project=root, store=kept, conf=_conf(root), data=root / "data", cache=kept)

    @classmethod
    def outside(cls, folder: Path) -> "Workplace":
        """A folder that is no project: records and MLflow's store are left there; all such folders share their data."""
        import platformdirs  # here, since a cell's process does not need it

        cache = platformdirs.user_cache_path("accelbench")
        return cls(root=folder, project=None, store=folder, conf=_conf(None), data=cache / "data", cache=cache)

    def with_data(self, folder: str | None) -> "Workplace":
        """The same with data sets in `folder`, as the user wrote it (`data.root`); None: where they are by default."""
        return self if folder is None else replace(self, data=Path(os.path.abspath(os.path.expanduser(folder))))

    @property
    def records(self) -> str:
        """The folder of the records that a command reads if the user names none."""
        return RUNS if self.project is None else RESULTS

    @property
    def record_folders(self) -> list[Path]:
        """All folders of records. Outside of a project, a folder named results/ is the user's own."""
        return [self.root / name for name in (RECORD_FOLDERS if self.project else (RUNS,))]


def workplace() -> Workplace:
    """The nearest project from the current folder up, or else the current folder."""
    root = project_folder()
    return Workplace.of_project(root) if root else Workplace.outside(Path.cwd())


def project_folder() -> Path | None:
    """The nearest project's folder, from the current folder up; None outside of a project."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if _is_project(folder)), None)


def pipelines_place() -> Workplace:
    """The project that a stage of the pipeline runs in. Raises UserError: the current folder is in no project."""
    place = workplace()
    if place.project is None:
        raise UserError(f"no {PARAMS} with suites here or above {place.root}: `accelbench init` makes a project")
    return place


def _is_project(folder: Path) -> bool:
    """Whether the folder's params.yaml has a key `suites`; DVC's users have files of this name with other keys."""
    # The text decides, so that a project whose file is not readable as YAML is still one, and says what is wrong there.
    return re.search(r"""^(["']?)suites\1\s*:""", _text(folder / PARAMS), re.MULTILINE) is not None


def _conf(project: Path | None) -> Path:
    if project is not None and OUR_SCHEMA in _text(project / "conf" / "config.yaml"):
        return project / "conf"
    return (PACKAGE if (PACKAGE / "conf").is_dir() else PACKAGE.parents[1]) / "conf"


def resolved(path: Path) -> Path:
    """As `Path.resolve`, which raises a RuntimeError for links in a circle before Python 3.13."""
    return Path(os.path.realpath(path))


def _text(path: Path) -> str:
    """Its begin; empty without such a file, or if it is somebody else's. Raises UserError: it can't be read."""
    # The folder must not pass for another one than it is.
    try:
        if not path.is_file():
            return ""
        with path.open(errors="replace") as file:
            return file.read(MAX_READ)
    except PermissionError:
        return ""
    except OSError as error:
        raise UserError(f"{path}: can't be read: {error.strerror}") from None


def mend_environment() -> None:
    """Gives this process and those below it what libraries fail without: a name, a home and a terminal's width."""
    try:
        getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user that it does not know
        os.environ["LOGNAME"] = f"user{os.getuid()}"
    if not os.path.isabs(os.path.expanduser("~")):
        os.environ["HOME"] = "/"
    columns = os.environ.pop("COLUMNS", "")
    if columns.isdecimal() and int(columns):  # rich prints nothing at a width of 0
        os.environ["COLUMNS"] = str(min(max(int(columns), MIN_COLUMNS), MAX_COLUMNS))


def check_inside(path: Path, root: Path) -> None:
    """Checks that no link leads from a folder that is written to out of the project. Raises UserError: one does."""
    target = Path(os.path.realpath(path))  # `Path.resolve` raises for a link to itself
    if not target.is_relative_to(os.path.realpath(root)) or (path.is_symlink() and not target.is_dir()):
        raise UserError(f"{shown(path)}: is a link to {target}, which is no folder in {root}: nothing is written there")


def shown(path: Path) -> str:
    """`path` as messages name it: relative to the current folder if it is below it."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
