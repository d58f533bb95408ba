"""What each stage of dvc.yaml does, in the project of the current folder; the last argument is `${key}` of dvc.yaml.

What only some stages need is imported there: `environment` and `retries` run every time.
"""

import json
import os
import sys
from pathlib import Path

from rich.console import Console

from accelbench.errors import UserError
from accelbench.grid.fingerprint import fingerprint
from accelbench.project import ENVIRONMENT, RESULTS, pipelines_place
from accelbench.schema.serialize import write_json
from accelbench.settings import params

EXPERIMENT = "DVC_EXP_BASELINE_REV"  # which DVC sets for the stages of an experiment


def run_suite(console: Console, name: str) -> None:
    """Measures every cell that has no record in results/<suite>/.

    It succeeds once every cell has a record, even if cells failed: else DVC would not build the report.
    """
    from accelbench.isolation.hosts import Hosts
    from accelbench.stages.suites import suites

    (suite,) = suites(pipelines_place().root, [name])
    with Hosts() as hosts:
        suite.measure(console, hosts)


def confirm(console: Console) -> None:
    """Measures the two best cells of the cheapest questions again, interleaved, into confirmed/."""
    from accelbench.isolation.hosts import Hosts
    from accelbench.stages import confirming

    with Hosts() as hosts:
        confirming.confirm(pipelines_place().root, console, hosts)


def list_source(_: Console, name: str) -> None:
    """Writes data/.sources/<name>.json, the files of the data set's source."""
    from accelbench.data import obtain

    place = pipelines_place()
    source = str(params.data_settings(place.project, name).get("source"))
    try:
        found = obtain.source_files(place.cache, name, source)
    except OSError as error:
        raise UserError(f"data.{name}.source: not readable ({error})") from error
    _write_if_changed(place.data / ".sources" / f"{name}.json", found)


def prepare_data(_: Console, name: str) -> None:
    """Writes data/<name>/."""
    from accelbench.data import obtain, prepare

    place = pipelines_place()
    obtain.find(name)  # before params.yaml is asked: its choices are fewer
    obtained = prepare.prepare(place, name, params.data_settings(place.project, name))
    if warning := prepare.warning(name, obtained):
        print(warning, file=sys.stderr)
    print(prepare.summary(place.data / name, name, obtained))


def write_environment(_: Console) -> None:
    """Run every time: writes environment.json if it has changed. Every sweep depends on it."""
    _write_if_changed(Path(ENVIRONMENT), fingerprint())  # DVC runs a stage in the folder of its dvc.yaml


def list_retries(_: Console) -> None:
    """Run every time: writes retries/<suite>.json, on which a sweep depends: otherwise DVC would see no change."""
    from accelbench.stages import suites

    suites.write_retries(pipelines_place().root)


def build_report(_: Console) -> None:
    """Builds report/ from results/."""
    from accelbench.report import build, dvc_plots  # here: they import the plot libraries

    place = pipelines_place()
    root, out = place.root, place.root / "report"
    costs, extension = params.costs(root), params.report_extension(root)
    page = build.build(root / RESULTS, out, costs, say=print, cache=place.cache, extension=extension)
    dvc_plots.write(out)
    print(f"report: {page}")


def verdict(_: Console) -> int:
    """Names the cells that failed unexpectedly; returns 1 if there are any. DVC would drop an experiment that does."""
    from accelbench.stages import suites

    root = pipelines_place().root
    found = suites.problems(root)
    for line in found:
        print(line, file=sys.stderr)
    return int(bool(found) and suites.is_strict(root) and EXPERIMENT not in os.environ)


def _write_if_changed(path: Path, value: object) -> None:
    try:
        written = json.loads(path.read_text())
    except (OSError, ValueError):
        written = None
    if written != value:
        write_json(path, value)
