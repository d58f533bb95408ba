"""The stages of dvc.yaml: `python -m accelbench.stages NAME [suite or data set]`.

`pipeline.py` has the stages that measure and report. Each stage imports only what it needs, so that it starts fast.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from rich.console import Console

from accelbench import project
from accelbench.lifeline import end_with_parent
from accelbench.schema.serialize import write_json

# An environment variable: names of the suites that `make repro` has measured, and the word `confirm`.
DONE = "ACCELBENCH_DONE"
MEASURING = ("run_suite", "confirm")
REPORTING = ("list_retries", "build_report", "verdict")


def main(words: Sequence[str] | None = None) -> int:
    """Runs the stage that `words`, or the command line, names. Returns the exit status: 2 if it could not start."""
    name, *keys = sys.argv[1:] if words is None else words
    if name not in STAGES:
        print(f"error: {name}: unknown stage. Choose from: {', '.join(STAGES)}.", file=sys.stderr)
        return 2
    try:
        if name in MEASURING:
            end_with_parent()
            if (keys or [name])[0] in os.environ.get(DONE, "").split():
                return 0
        stage = PREPARING.get(name) or getattr(import_module("accelbench.pipeline"), name)
        return status_of(lambda console: stage(console, *keys))
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 130


def status_of(run: Callable[[Console], int | None]) -> int:
    """Calls `run`. Returns its exit status, or 0 for None. If the user made a mistake, prints it and returns 2."""
    project.mend_environment()
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return run(Console(highlight=False)) or 0
    except Exception as error:  # the imports below take long, and only an error needs them
        from accelbench.schema.secrets import masked
        from accelbench.schema.text import clean
        from accelbench.settings.compose import user_error_behind

        mistake = user_error_behind(error)
        if mistake is None:
            raise
        print(f"error: {clean(masked(str(mistake)))}", file=sys.stderr)
        return 2


def list_source(_: Console, name: str) -> None:
    """Writes data/.sources/<name>.json, the files of the data set's source."""
    from accelbench.data.sets import source_files
    from accelbench.settings.params import data_settings

    place = project.pipelines_place()
    source = str(data_settings(place.project, name).get("source"))
    _write_if_changed(place.data / ".sources" / f"{name}.json", source_files(place.cache, name, source))


def prepare_data(_: Console, name: str) -> None:
    """Writes data/<name>/."""
    from accelbench.data import prepare, sets
    from accelbench.settings.params import data_settings

    place = project.pipelines_place()
    sets.find(name)  # refuses an unknown name; the message lists all data sets
    obtained = prepare.prepare(place, name, data_settings(place.project, name))
    if warning := prepare.warning(name, obtained):
        print(warning, file=sys.stderr)
    print(prepare.summary(place.data / name, name, obtained))


def write_environment(_: Console) -> None:
    """Writes environment.json if the fingerprint has changed. DVC always runs this stage; sweeps depend on the file."""
    from accelbench.grid.fingerprint import fingerprint

    # DVC runs a stage in the folder of its dvc.yaml.
    _write_if_changed(Path(project.ENVIRONMENT), fingerprint())


def _write_if_changed(path: Path, value: object) -> None:
    with suppress(OSError, ValueError):
        if json.loads(path.read_text()) == value:
            return
    write_json(path, value)


PREPARING = {stage.__name__: stage for stage in (list_source, prepare_data, write_environment)}
STAGES = (*MEASURING, *PREPARING, *REPORTING)

if __name__ == "__main__":
    sys.exit(main())
