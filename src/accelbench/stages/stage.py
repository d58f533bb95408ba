"""The stages of dvc.yaml: `python -m accelbench.stages NAME [suite or data set]`.

Each imports what it needs when it runs: a stage that only asks `make repro` needs little, and so do the processes that
decode pictures, which import the script that was started.
"""

import json
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from accelbench.errors import UserError
from accelbench.lifeline import end_with_parent

if TYPE_CHECKING:
    from rich.console import Console

    from accelbench.isolation.hosts import Hosts

# The path of a socket, in the environment of DVC and its stages while `make repro` runs.
VARIABLE = "ACCELBENCH_JOB"
EXPERIMENT = "DVC_EXP_BASELINE_REV"  # which DVC sets for the stages of an experiment


def main(words: Sequence[str] | None = None) -> int:
    """Runs a stage; returns its exit status.

    Args:
        words: its name, and what `${key}` in dvc.yaml stands for; None: this process's.
    """
    name, *keys = sys.argv[1:] if words is None else words
    if name not in STAGES:
        print(f"error: {name}: unknown stage. Choose from: {', '.join(STAGES)}.", file=sys.stderr)
        return 2
    return STAGES[name](*keys)


def run_suite(suite: str) -> int:
    """`sweep@<suite>`: measures every cell that has no record in results/<suite>/.

    Exits 0 once every cell has a record, even if cells failed: if the stage failed, DVC would not build the report.
    Exits 2 if nothing could be started.
    """

    def measure(console: "Console", hosts: "Hosts") -> None:
        from accelbench.project import pipelines_place
        from accelbench.stages.suites import suites

        (found,) = suites(pipelines_place().root, [suite])
        found.measure(console, hosts)

    return by_job(["sweep", suite], measure)


def confirm() -> int:
    """`confirm`: measures the two best cells of the cheapest questions again, interleaved, into confirmed/.

    Exits 0 once every process has a record, even if some failed. Exits 2 if nothing could be started.
    """

    def measure(console: "Console", hosts: "Hosts") -> None:
        from accelbench.project import pipelines_place
        from accelbench.stages import suites

        suites.confirm(pipelines_place().root, console, hosts)

    return by_job(["confirm"], measure)


def list_source(name: str) -> int:
    """`source@<name>`: writes data/.sources/<name>.json, the files of the data set's source."""

    def write(console: "Console") -> None:
        from accelbench.data.obtain import source_files
        from accelbench.project import pipelines_place
        from accelbench.settings.params import data_settings

        place = pipelines_place()
        source = str(data_settings(place.project, name).get("source"))
        try:
            found = source_files(place.cache, name, source)
        except OSError as error:
            raise UserError(f"data.{name}.source: not readable ({error})") from error
        _write_if_changed(place.data / ".sources" / f"{name}.json", found)

    return status_of(write)


def prepare_data(name: str) -> int:
    """`data@<name>`: writes data/<name>/."""

    def write(console: "Console") -> None:
        from accelbench.data import obtain, prepare
        from accelbench.project import pipelines_place
        from accelbench.settings.params import data_settings

        place = pipelines_place()
        obtain.find(name)  # before params.yaml is asked: its choices are fewer
        obtained = prepare.prepare(place, name, data_settings(place.project, name))
        if warning := prepare.warning(name, obtained):
            print(warning, file=sys.stderr)
        print(prepare.summary(place.data / name, name, obtained))

    try:
        return status_of(write)
    except KeyboardInterrupt:
        print(f"\nInterrupted; data/{name} is as it was.", file=sys.stderr)
        return 130


def write_environment() -> int:
    """`environment`, run every time: writes environment.json if it has changed. Every sweep depends on it."""
    from accelbench.grid.fingerprint import fingerprint
    from accelbench.project import ENVIRONMENT

    _write_if_changed(Path(ENVIRONMENT), fingerprint())  # DVC runs a stage in the folder of its dvc.yaml
    return 0


def list_retries() -> int:
    """`retries`, run every time: lists the cells of each suite that `retry: failed` measures again.

    A sweep depends on the list of its suite, retries/<suite>.json: otherwise DVC would see no change, and not run it.
    """
    from accelbench.project import pipelines_place
    from accelbench.stages.suites import write_retries

    return status_of(lambda console: write_retries(pipelines_place().root))


def build_report() -> int:
    """`report`: builds report/ from results/."""

    def build_from(console: "Console") -> None:
        from accelbench.project import pipelines_place
        from accelbench.report import dvc_plots
        from accelbench.report.build import build
        from accelbench.settings import params

        place = pipelines_place()
        root = place.root
        page = build(
            root / "results",
            root / "report",
            params.costs(root),
            say=print,
            data=place.data,
            cache=place.cache,
            extension=params.report_extension(root),
        )
        dvc_plots.write(root / "report")
        print(f"report: {page}")

    return status_of(build_from)


def verdict(environ: Mapping[str, str] = os.environ) -> int:
    """`verdict`, the last one: names the cells that failed unexpectedly, and exits 1 if there are any.

    Not in an experiment, which DVC would drop, and not with `strict: false` in params.yaml.
    """

    def judge(console: "Console") -> int:
        from accelbench.project import pipelines_place
        from accelbench.stages import suites

        root = pipelines_place().root
        found = suites.problems(root)
        for line in found:
            print(line, file=sys.stderr)
        return int(bool(found) and suites.is_strict(root) and EXPERIMENT not in environ)

    return status_of(judge)


STAGES: dict[str, Callable[..., int]] = {
    each.__name__: each
    for each in (
        *(run_suite, confirm, list_source, prepare_data),
        *(write_environment, list_retries, build_report, verdict),
    )
}


def by_job(words: list[str], measure: "Callable[[Console, Hosts], None]") -> int:
    """The exit status of a stage that measures: `make repro` does it if it runs DVC, and else this process."""
    end_with_parent()

    def with_hosts(console: "Console") -> None:
        from accelbench.isolation.hosts import Hosts

        with Hosts() as hosts:
            measure(console, hosts)

    try:
        status = _ask(words)
        return status_of(with_hosts) if status is None else status
    except KeyboardInterrupt:
        print("\nInterrupted; every finished cell has its record.", file=sys.stderr)
        return 130


def status_of(run: "Callable[[Console], int | None]") -> int:
    """What `run` returns, or 0; 2 after a mistake of the user, whose message is shown."""
    from rich.console import Console

    from accelbench.schema.text import clean
    from accelbench.settings.hydra_errors import user_error_behind

    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return run(Console(highlight=False)) or 0
    except Exception as error:
        mistake = user_error_behind(error)
        if mistake is None:
            raise
        print(f"error: {clean(str(mistake))}", file=sys.stderr)
        return 2


def _write_if_changed(path: Path, value: object) -> None:
    from accelbench.schema.serialize import write_json

    try:
        written = json.loads(path.read_text())
    except (OSError, ValueError):
        written = None
    if written != value:
        write_json(path, value)


def _ask(words: list[str]) -> int | None:
    path = os.environ.get(VARIABLE)
    if path is None:
        return None
    with socket.socket(socket.AF_UNIX) as job:
        try:
            job.connect(path)
        except OSError:
            return None
        try:
            job.sendall(json.dumps(words).encode() + b"\n")
            answer = job.makefile().readline()
        except (OSError, KeyboardInterrupt):
            answer = ""
    status: int | None = json.loads(answer) if answer else 130  # it has ended, and said why
    return status
