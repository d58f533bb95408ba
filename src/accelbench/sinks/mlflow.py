"""Writes records as MLflow runs. No other module imports mlflow."""

import json
import os
import re
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from accelbench.answers.cells import MeasuredCell
from accelbench.errors import UserError
from accelbench.schema.record import Record
from accelbench.sinks import location, mlflow_fields
from accelbench.sinks.location import PROXIED, artifacts, is_own, locked
from accelbench.sinks.mlflow_fields import CELL, RECORD, SWEEP, WORD, Key

# With MLflow's defaults, a call to a dead server takes four minutes, and MLflow reports usage to Databricks.
for _name, _value in {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # otherwise each run prints two lines
    # MLflow raises every error that it logs, and the sweep prints it in one line.
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
}.items():
    os.environ.setdefault(_name, _value)

from mlflow import MlflowClient, entities  # noqa: E402
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore  # noqa: E402
from mlflow.utils import chunk_list  # noqa: E402

MAX_METRICS, MAX_RUNS = 1000, 50_000  # metrics of a batch, runs of a search: MLflow's limits
PARENT = "mlflow.parentRunId"


class Store:
    """The MLflow store of a project. It has an experiment for each suite, with runs of processes and cells.

    A skipped cell has no run, because it has no numbers to show. A finished run is never deleted: the runs of older
    code are the history of a cell.

    If the store can't be reached or created, the methods raise MLflow's own errors.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        with locked(root):
            if is_own(root) and not location.database(root).stat().st_size:  # `locked` creates an empty file
                _create(location.database(root).resolve())
            self._client: Any = MlflowClient(location.tracking_uri(root))
            self._client.search_experiments(max_results=1)  # fails if the server does not answer

    def deliver(self, record: Record, *, is_confirming: bool = False) -> bool:
        """Makes a run for the record's process if there is none. Returns whether it made one. Other writers wait.

        Unless `is_confirming`, the suite's view then shows the record's sweep.
        """
        with locked(self._root):
            sweep = "" if is_confirming else mlflow_fields.sweep_of([record])
            experiment_id = self._experiment(record.cell.suite, sweep)
            runs = self._finished(experiment_id, f"tags.{RECORD} = '{record.name}'")
            is_missing = all(run.info.start_time != mlflow_fields.start_ms(record) for run in runs)
            if is_missing:
                self._make(experiment_id, mlflow_fields.of_process(record))
            return is_missing

    def relate(self, cells: Sequence[MeasuredCell]) -> None:
        """Writes the comparison of a sweep's cells into their runs, and the answer into the experiment's description.

        A cell with several processes gets a run of its own.
        """
        processes = mlflow_fields.ran(process for cell in cells for process in cell.processes)
        records = [process.record for process in processes if process.record]
        if not records:
            return
        sweep = mlflow_fields.sweep_of(records)
        with locked(self._root):
            experiment_id = self._experiment(cells[0].cell.suite, sweep, mlflow_fields.about(cells))
            for run in mlflow_fields.of_cells(cells):
                self._show(experiment_id, run, sweep)

    def _show(self, experiment_id: str, run: mlflow_fields.Run, sweep: str) -> None:
        """Updates a cell's run: the run of its only process, or the parent run of its processes' runs."""
        runs = self._finished(experiment_id, f"tags.{CELL} = '{run.tags[CELL]}'")
        processes = [run for run in runs if RECORD in run.data.tags]
        parents = [run for run in runs if RECORD not in run.data.tags]
        if len(processes) > 1 and not parents:
            parents.append(self._make(experiment_id, run))
        sweeps = {sweep, *(name for run in runs for name in run.data.tags.get(SWEEP, "").split())}
        for finished in parents or processes:
            self._write(finished, run._replace(tags=run.tags | {SWEEP: " ".join(sorted(sweeps))}))
        for child in processes if parents else ():
            if child.data.tags.get(PARENT) != parents[0].info.run_id:
                self._client.set_tag(child.info.run_id, PARENT, parents[0].info.run_id)
                for tag in {SWEEP, WORD} & child.data.tags.keys():  # only the parent has the tags of a cell
                    self._client.delete_tag(child.info.run_id, tag)

    def delivered(self, suite: str) -> set[Key]:
        """Returns the keys of the suite's records that need no further delivery.

        Such a record has a finished run. The run, or its parent run, also has the cell's comparison with other cells.
        """
        runs = self._finished(self._experiment(suite), f"tags.{RECORD} != '' and status != 'RUNNING'")
        shown = [run for run in runs if not {WORD, PARENT}.isdisjoint(run.data.tags)]
        return {(run.data.tags[RECORD], run.info.start_time) for run in shown}

    def newest_experiment(self) -> str:
        """Returns the id of the experiment with the newest sweep. Raises UserError if there is no sweep yet."""
        experiments = self._client.search_experiments(filter_string=f"name LIKE '{location.PREFIX}%'")
        newest = max(experiments, key=lambda experiment: experiment.tags.get(SWEEP, ""), default=None)
        if newest is None or SWEEP not in newest.tags:
            raise UserError("no run in MLflow yet: run a sweep first")
        return str(newest.experiment_id)

    def _experiment(self, suite: str, sweep: str = "", about: str = "") -> str:
        """Returns the id of the suite's experiment, which is made if it is missing.

        The newest sweep decides the experiment's view and description. An older sweep, which `sync` may deliver later,
        does not change them.
        """
        name = location.PREFIX + suite
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            # An address without a path: MLflow's server adds the folder that it is started with. So the addresses stay
            # right if the project is moved.
            place = PROXIED + re.sub(r"[^\w-]", "_", suite, flags=re.ASCII) if is_own(self._root) else None
            experiment = self._client.get_experiment(self._client.create_experiment(name, place))
        newest = experiment.tags.get(SWEEP, "")
        if sweep > newest or (about and sweep == newest):
            for key, value in mlflow_fields.experiment_tags(sweep, about).items():
                self._client.set_experiment_tag(experiment.experiment_id, key, value)
        return str(experiment.experiment_id)

    def _finished(self, experiment_id: str, condition: str) -> list[entities.Run]:
        """Returns the finished runs that meet the condition. Deletes unfinished runs, which killed processes left."""
        finished = []
        for run in self._client.search_runs([experiment_id], condition, max_results=MAX_RUNS):
            if run.info.status == "RUNNING":
                self._client.delete_run(run.info.run_id)
            else:
                finished.append(run)
        return finished

    def _make(self, experiment_id: str, run: mlflow_fields.Run) -> entities.Run:
        created = self._client.create_run(experiment_id, run.start_ms, run.tags, run.name)
        run_id = created.info.run_id
        self._write(created, run)
        for points in chunk_list(run.series, MAX_METRICS):
            self._client.log_batch(run_id, [entities.Metric(*point) for point in points])
        if run.data is not None:
            source = json.dumps({"uri": run.data.source})
            dataset = entities.Dataset(run.params["data"], run.data.digest[:12], "local", source)
            tag = entities.InputTag("mlflow.data.context", run.params["mode"])
            self._client.log_inputs(run_id, [entities.DatasetInput(dataset, [tag])])
        self._client.set_terminated(run_id, run.status, run.end_ms)
        return created

    def _write(self, existing: entities.Run, run: mlflow_fields.Run) -> None:
        """Updates an existing run to the values of `run`, and writes its files."""
        now_ms = round(time.time() * 1000)
        known = existing.data
        changed = [item for item in run.metrics.items() if item not in known.metrics.items()]
        metrics = [entities.Metric(key, value, now_ms, 0) for key, value in changed]
        params = [entities.Param(key, text) for key, text in run.params.items() if key not in known.params]
        tags = [entities.RunTag(key, text) for key, text in run.tags.items()]
        self._client.log_batch(existing.info.run_id, metrics, params, tags)
        for name, text in run.files.items():
            self._put(existing, name, text)

    def _put(self, run: entities.Run, name: str, text: str) -> None:
        """Writes a file of a run."""
        uri = run.info.artifact_uri
        # MLflow's client can't write files to such addresses.
        if is_own(self._root) and uri.startswith(PROXIED):
            path = artifacts(self._root) / uri.removeprefix(PROXIED).lstrip("/") / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        else:
            with suppress(PermissionError):  # the server's own folder, such as /srv, which this machine lacks
                self._client.log_text(run.info.run_id, text, name)


def _create(path: Path) -> None:
    """Makes the store in a temporary folder, then moves it into place. So a killed process leaves no partial store."""
    with TemporaryDirectory(dir=path.parent, prefix=".mlflow-") as folder:
        new = Path(folder) / path.name
        # MLflow's client would put the default experiment's files into the current folder, with unescaped SQL.
        store = SqlAlchemyStore(f"sqlite:///{new}", PROXIED)
        store._dispose_engine()
        with closing(sqlite3.connect(new)) as connection:
            # With WAL, others can read while one process writes. The database keeps this mode.
            connection.execute("PRAGMA journal_mode=WAL")
        new.replace(path)
