"""Records as MLflow runs. No other module imports mlflow."""

import json
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from accelbench.answers.cells import MeasuredCell
from accelbench.answers.process import OLDER
from accelbench.schema.record import Record
from accelbench.schema.serialize import grouped
from accelbench.sinks import location, mlflow_fields
from accelbench.sinks.location import folder_of, is_own, locked

# By MLflow's defaults, one call to a dead server takes four minutes, and usage is reported to Databricks.
for _name, _value in {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # two lines for each run, with a server
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # what it logs it also raises, and a sink says that in one line
}.items():
    os.environ.setdefault(_name, _value)

from mlflow import MlflowClient, entities  # noqa: E402
from mlflow.entities import Metric, Param  # noqa: E402
from mlflow.store.db.utils import _get_latest_schema_revision  # noqa: E402
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore  # noqa: E402

MAX_METRICS = 1000  # per batch: MLflow's limit
# Where a server may have files put: else it could name any folder of this machine.
REMOTE = re.compile(r"(mlflow-artifacts|s3|gs|abfss|wasbs|hdfs|dbfs|r2|b2):", re.IGNORECASE)
FINISHED = "attributes.status != 'RUNNING'"  # as MLflow searches

Key = tuple[str, str]  # a record's name and start: the tags that identify its run


class Store:
    """The MLflow store of a project: an experiment per suite, a flat run per record.

    A skipped cell has no run: it measured nothing and would fill the table and the charts. Raises whatever MLflow does
    if the store can't be reached or created.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._experiments: dict[str, str] = {}
        uri = location.tracking_uri(root)
        with locked(root, location.OPENING_PATIENCE_S):
            if is_own(root) and not location.database(root).stat().st_size:  # `locked` has made an empty one
                _create(location.database(root).resolve())
            elif is_own(root):  # else the client may migrate it
                location.check_schema(location.database(root), _get_latest_schema_revision())
            self._client: Any = MlflowClient(uri)
            self._client.search_experiments(max_results=1)  # fails if the server does not answer
            if is_own(root):
                with closing(sqlite3.connect(location.database(root))) as connection:
                    # Allows readers while one process writes; the database keeps the setting.
                    connection.execute("PRAGMA journal_mode=WAL")

    def deliver(self, records: Sequence[Record]) -> int:
        """Makes the runs of records of one suite unless they are there, and returns how many were missing.

        Unfinished runs of them are removed, also those of earlier measurements. Another writer waits meanwhile.
        """
        wanted = {key_of(record): record for record in records}
        names = {record.name for record in records}
        with locked(self._root):
            experiment_id = self._experiment(records[0].cell.suite)
            for run in list(self._runs(experiment_id, "attributes.status = 'RUNNING'")):
                if run.data.tags.get("record") in names:
                    self._client.delete_run(run.info.run_id)
            starts = [mlflow_fields.start_ms(record) for record in records]
            between = f"attributes.start_time >= {min(starts)} and attributes.start_time <= {max(starts)}"
            for run in self._runs(experiment_id, f"{between} and tags.record != ''"):
                wanted.pop(_key(run), None)
            for record in wanted.values():
                self._log(experiment_id, record)
        return len(wanted)

    def relate(self, cells: Sequence[MeasuredCell]) -> None:
        """Makes a run for each of these cells, which says how they compare, and marks those of older code."""
        found = mlflow_fields.standings(cells)
        with locked(self._root):
            for suite in dict.fromkeys(each.cell.cell.suite for each in found):
                experiment_id = self._experiment(suite)
                ours = [each for each in found if each.cell.cell.suite == suite]
                self._show_cells(experiment_id, ours)
                self._mark_older(experiment_id, {each.cell.history_key for each in ours})

    def _mark_older(self, experiment_id: str, histories: set[str]) -> None:
        """Marks the runs of cells of these histories as older but those of the code that was measured last."""
        runs = self._runs(experiment_id, f"{mlflow_fields.IS_CELL} and {FINISHED}")
        of_cells = grouped(runs, lambda run: run.data.tags.get(mlflow_fields.HISTORY))
        for history in histories:
            for run in sorted(of_cells[history], key=lambda run: run.info.end_time)[:-1]:
                if run.data.tags["word"] != OLDER:
                    processes = f"tags.cell = '{run.data.tags[mlflow_fields.CELL_KEY]}'"
                    for each in [run, *self._runs(experiment_id, processes)]:
                        self._client.set_tag(each.info.run_id, "word", OLDER)
                    self._client.set_tag(run.info.run_id, "mlflow.runName", f"{run.info.run_name} ({OLDER})")

    def _show_cells(self, experiment_id: str, cells: Sequence[mlflow_fields.Standing]) -> None:
        """Makes or mends the cells' runs, without a tag `record`; one of more, or later, processes stays."""
        runs: dict[str, entities.Run] = {}
        ours = {each.cell.measured_key for each in cells}  # another writer of a shared server may be making others
        for run in list(self._runs(experiment_id, mlflow_fields.IS_CELL)) if cells else ():
            key = run.data.tags.get(mlflow_fields.CELL_KEY)
            if run.info.status != "RUNNING" and key not in runs:
                runs[key] = run
            elif key in ours:  # of a killed process
                self._client.delete_run(run.info.run_id)
        labels = mlflow_fields.labels_of_cells([each.cell for each in cells])
        for each in cells:
            cell = each.cell
            assert cell.record
            records = [of.record for of in cell.counted or cell.processes if of.record is not None]
            started_ms = min(map(mlflow_fields.start_ms, records))
            metrics, params, tags = mlflow_fields.cell_fields(each, experiment_id)
            tags["mlflow.runName"] = labels[cell.measured_key]
            if (earlier := runs.get(cell.measured_key)) is not None:
                written = earlier.data.metrics
                there = written.get(mlflow_fields.NUM_PROCESSES, 0), earlier.info.start_time
                if there > (cell.num_processes, started_ms):
                    continue
                if written == metrics:  # the run stays, with what its user wrote there
                    if new := sorted(tags.items() - earlier.data.tags.items()):
                        self._client.log_batch(earlier.info.run_id, tags=[entities.RunTag(*tag) for tag in new])
                    continue
                self._client.delete_run(earlier.info.run_id)
            run = self._client.create_run(experiment_id, started_ms, tags)
            values = [Metric(key, value, _now_ms(), cell.num_processes) for key, value in metrics.items()]
            self._client.log_batch(run.info.run_id, values, [Param(key, value) for key, value in params.items()])
            ended_ms = max(map(mlflow_fields.end_ms, records))
            self._client.set_terminated(run.info.run_id, mlflow_fields.ended_as(cell.record), ended_ms)

    def delivered(self, suite: str) -> dict[Key, bool]:
        """The records of `suite` that have a finished run, and whether the run of their cell is as new."""
        experiment_id = self._experiment(suite)
        cells = self._runs(experiment_id, f"{mlflow_fields.IS_CELL} and {FINISHED}")
        ends_ms = {run.data.tags.get(mlflow_fields.CELL_KEY): run.info.end_time for run in cells}
        runs = self._runs(experiment_id, f"tags.record != '' and {FINISHED}")
        return {_key(run): ends_ms.get(run.data.tags.get("cell"), 0) >= run.info.end_time for run in runs}

    def newest_experiment(self) -> str | None:
        """The id of the experiment with the newest run; None if there is no run yet."""
        experiments = self._client.search_experiments(filter_string=f"name LIKE '{location.PREFIX}%'")
        ids = [experiment.experiment_id for experiment in experiments]
        runs = self._client.search_runs(ids, order_by=["attributes.start_time DESC"], max_results=1) if ids else []
        return str(runs[0].info.experiment_id) if runs else None

    def _experiment(self, suite: str) -> str:
        """The id of the suite's experiment; makes or restores it, and saves its views, if needed."""
        if suite not in self._experiments:
            name = location.PREFIX + suite
            experiment = self._client.get_experiment_by_name(name)
            if experiment is None:
                place = location.proxied(suite) if is_own(self._root) else None
                experiment = self._client.get_experiment(self._client.create_experiment(name, place))
            elif experiment.lifecycle_stage == entities.LifecycleStage.DELETED:
                self._client.restore_experiment(experiment.experiment_id)
            if is_own(self._root):
                folder_of(experiment.artifact_location, self._root)  # refuses one of another place
            for key, value in mlflow_fields.view_tags(_now_ms(), experiment.tags).items():
                self._client.set_experiment_tag(experiment.experiment_id, key, value)
            self._experiments[suite] = experiment.experiment_id
        return self._experiments[suite]

    def _runs(self, experiment_id: str, condition: str) -> Iterator[entities.Run]:
        token = None
        while True:
            page = self._client.search_runs([experiment_id], condition, max_results=1000, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def _log(self, experiment_id: str, record: Record) -> None:
        run = mlflow_fields.translate(record)
        created = self._client.create_run(experiment_id, run.start_ms, run.tags, record.label)
        run_id = created.info.run_id
        metrics = [Metric(*point) for point in run.points]
        params = [Param(key, value) for key, value in run.params.items()]
        for start in range(0, len(metrics), MAX_METRICS):
            self._client.log_batch(run_id, metrics[start : start + MAX_METRICS], params)
            params = []
        if (data := record.data) is not None:
            uri = json.dumps({"uri": data.source})
            name, digest = mlflow_fields.data_name(data), data.digest[: mlflow_fields.DIGEST_LENGTH]
            dataset = entities.Dataset(name, digest, "local", uri)
            tag = entities.InputTag("mlflow.data.context", record.cell.mode)
            self._client.log_inputs(run_id, [entities.DatasetInput(dataset, [tag])])
        text = json.dumps(record.to_json(), indent=1)
        if is_own(self._root):  # MLflow's client writes to a server or a cloud's store, but not to our own address
            folder = folder_of(created.info.artifact_uri, self._root)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "record.json").write_text(text)
        elif location.server_uri(self._root) is None or REMOTE.match(created.info.artifact_uri):
            self._client.log_text(run_id, text, "record.json")
        self._client.set_terminated(run_id, run.status, run.end_ms)


def key_of(record: Record) -> Key:
    """The key of the run of `record`."""
    return record.name, record.started_at


def _key(run: entities.Run) -> Key:
    return run.data.tags["record"], run.data.tags["started_at"]


def _create(path: Path) -> None:
    """Makes the store beside its place: a process that is killed meanwhile leaves no half of one there."""
    made = path.with_name(f".{path.name}.new")
    for ending in ("", "-journal", "-wal", "-shm"):  # of a process that was killed
        made.with_name(made.name + ending).unlink(missing_ok=True)
    # The client would give the default experiment a folder below the current one, in SQL without escapes.
    store = SqlAlchemyStore(f"sqlite:///{made}", location.PROXIED)
    store._dispose_engine()
    made.replace(path)


def _now_ms() -> int:
    return round(time.time() * 1000)
