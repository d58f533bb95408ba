"""Records as MLflow runs. No other module imports mlflow."""

import json
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from accelbench import scratch
from accelbench.answers.cells import MeasuredCell
from accelbench.schema.conditions import Data
from accelbench.schema.record import Record
from accelbench.sinks import run_picture
from accelbench.sinks.in_time import InTime
from accelbench.sinks.location import (
    LOCAL_SERVER,
    OPENING_PATIENCE_S,
    PREFIX,
    PROXIED,
    check_is_ours,
    database,
    folder_of,
    is_own,
    locked,
    proxied,
    server_uri,
    tracking_uri,
)
from accelbench.sinks.mlflow_fields import (
    CELL_KEY,
    IS_CELL,
    NOTE,
    NUM_PROCESSES,
    cell_fields,
    data_name,
    end_ms,
    start_ms,
    translate,
)
from accelbench.sinks.relative_speed import RelativeSpeed
from accelbench.sinks.sink import Sink
from accelbench.sinks.view import COMPARE, SHARE, VERDICT, compare_link, run_url, view_tags

# By MLflow's defaults, one call to a dead server takes four minutes, and usage is reported to Databricks.
for _name, _value in {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # two lines for each run, with a server
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # what it logs it also raises, and a sink says that in one line
}.items():
    os.environ.setdefault(_name, _value)

from mlflow import MlflowClient  # noqa: E402
from mlflow.entities import (  # noqa: E402
    Dataset,
    DatasetInput,
    InputTag,
    LifecycleStage,
    Metric,
    Param,
    RunStatus,
    RunTag,
    ViewType,
)
from mlflow.entities import Run as MLflowRun  # noqa: E402
from mlflow.store.db.utils import _get_latest_schema_revision  # noqa: E402
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore  # noqa: E402

MAX_METRICS, MAX_TAG = 1000, 8000  # MLflow's limits: metrics per batch, characters per tag
MAX_LINK = 1000  # characters of a link and a command that a description may get later
PLAIN = re.compile(r"[\w.=-]+")  # a name that needs no escapes in a search
BATCH = 50  # records that are delivered while the lock is held: some three seconds
DIGEST_LENGTH = 12  # MLflow shows all of it beside the name, and allows 36 characters


class Key(NamedTuple):
    """The tags that identify the run of a record."""

    record: str
    started_at: str


class Store:
    """The MLflow store of a project: an experiment per suite, a flat run per record.

    A skipped cell has no run: it measured nothing and would fill the table and the charts; the report names it. A
    failed cell has a run, with its reason.

    Raises:
        Exception: any that MLflow raises if the store can't be reached or created.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._experiments: dict[str, str] = {}
        self._run_ids: dict[Key, str] = {}  # of finished runs that were asked for or made
        with locked(root, OPENING_PATIENCE_S):
            if is_own(root) and not database(root).stat().st_size:  # `locked` has made an empty one
                # The client would give the default experiment a folder below the current one, in SQL without escapes.
                SqlAlchemyStore(tracking_uri(root), PROXIED)
            elif is_own(root):
                check_is_ours(database(root), _get_latest_schema_revision())  # else the client may migrate it
            self._client: Any = MlflowClient(tracking_uri(root))
            if server_uri(root) is not None:
                self._client = InTime(self._client)
            self._client.search_experiments(max_results=1)  # fails if the server does not answer
            if is_own(root):
                with closing(sqlite3.connect(database(root))) as connection:
                    # Allows readers while one process writes; the database keeps the setting.
                    connection.execute("PRAGMA journal_mode=WAL")

    def deliver(self, records: Sequence[Record]) -> int:
        """Makes the runs of records unless they are there, and returns how many were missing.

        Unfinished runs of them are removed, also those of earlier measurements. The records are of one suite, and none
        is skipped. Another writer waits meanwhile: at most `BATCH`.
        """
        wanted = {key_of(record): record for record in records}
        names = {record.name for record in records}
        with locked(self._root), scratch.temporary_files():
            experiment_id = self._experiment(records[0].cell.suite)
            for run in list(self._known_runs(experiment_id, records)):
                if run.data.tags.get("record") not in names:
                    continue
                if not RunStatus.is_terminated(RunStatus.from_string(run.info.status)):
                    self._client.delete_run(run.info.run_id)
                else:
                    wanted.pop(_key(run), None)
            for record in wanted.values():
                self._log(experiment_id, record)
        return len(wanted)

    def _known_runs(self, experiment_id: str, records: Sequence[Record]) -> Iterator[MLflowRun]:
        """The runs among which those of `records` are, and the unfinished ones of earlier measurements of them."""
        if len(records) == 1:
            return self._runs(experiment_id, f"tags.record = '{records[0].name}'")
        starts = [start_ms(record) for record in records]
        between = f"attributes.start_time >= {min(starts)} and attributes.start_time <= {max(starts)}"
        found = [*self._runs(experiment_id, between), *self._runs(experiment_id, "attributes.status = 'RUNNING'")]
        return iter({run.info.run_id: run for run in found}.values())

    def relate(self, found: Sequence[RelativeSpeed]) -> None:
        """Adds to each run how far it is behind the fastest one, how sure that is, and a link that compares the two.

        The link ends the run's description, unless the user has changed it. The fastest run has none.
        """
        with locked(self._root):
            for each in found:
                experiment_id = self._experiment(each.record.cell.suite)
                run, fastest = (self._run_id(experiment_id, record) for record in (each.record, each.fastest))
                if run is None or fastest is None:
                    continue
                ours = translate(each.record).note[: MAX_TAG - MAX_LINK]
                note = (
                    ours if run == fastest else f"{ours}\n\n{compare_link(experiment_id, run, fastest)}: {each.words}"
                )
                written = self._client.get_run(run).data.tags.get(NOTE, "")
                is_ours = written == ours or written.startswith(f"{ours}\n\n{COMPARE}")
                tags = {VERDICT: each.verdict} | ({NOTE: note} if is_ours else {})
                share = Metric(SHARE, each.share, _now_ms(), 0)
                self._client.log_batch(run, [share], tags=[RunTag(*tag) for tag in tags.items()])

    def show_cells(self, cells: Sequence[MeasuredCell]) -> None:
        """Makes or updates a run for each cell of several processes; one that counts more of them stays as it is.

        They have no tag `record`, as measurements have.
        """
        with locked(self._root):
            for suite in dict.fromkeys(each.cell.suite for each in cells):
                experiment_id, runs = self._experiment(suite), dict[str, MLflowRun]()
                for run in list(self._runs(experiment_id, IS_CELL)):
                    if runs.setdefault(run.data.tags[CELL_KEY], run) is not run:  # a killed process left two
                        self._client.delete_run(run.info.run_id)
                for each in cells:
                    if each.cell.suite == suite:
                        self._show_cell(experiment_id, each, runs.get(each.measured_key))

    def _show_cell(self, experiment_id: str, cell: MeasuredCell, run: MLflowRun | None) -> None:
        metrics, params, tags = cell_fields(cell)
        if run is not None:
            written = run.data.metrics
            counts_more = run.info.status == "FINISHED" and written.get(NUM_PROCESSES, 0) > cell.num_processes
            if counts_more or written == metrics:
                return
            if written.keys() - metrics.keys():  # a metric can't be taken away
                self._client.delete_run(run.info.run_id)
                run = None
        records = [each.record for each in cell.counted if each.record is not None]
        if run is None:
            name = f"cell {cell.label} {cell.measured_key[:6]}"
            run = self._client.create_run(experiment_id, min(map(start_ms, records)), tags, name)
        values = [Metric(name, value, _now_ms(), cell.num_processes) for name, value in metrics.items()]
        self._client.log_batch(run.info.run_id, values, [Param(name, value) for name, value in params.items()])
        self._client.set_terminated(run.info.run_id, "FINISHED", max(map(end_ms, records)))

    def link(self, record: Record) -> str | None:
        """The page of the record's run, with the command that serves it; None if there is no such run."""
        experiment = self._client.get_experiment_by_name(PREFIX + record.cell.suite)
        if experiment is None:
            return None
        served = server_uri(self._root)
        for run in self._runs_of(experiment.experiment_id, record):
            page = run_url(served or LOCAL_SERVER, experiment.experiment_id, run.info.run_id)
            return page if served else f"{page}  (`accelbench ui` serves it)"
        return None

    def delivered(self, suite: str) -> dict[Key, bool]:
        """The records of `suite` that have a finished run, and whether it says how its speed compares."""
        return {
            _key(run): VERDICT in run.data.tags
            for run in self._runs(self._experiment(suite), "tags.record != ''")
            if RunStatus.is_terminated(RunStatus.from_string(run.info.status))
        }

    def newest_experiment(self) -> str | None:
        """The id of the experiment with the newest run; None if there is no run yet."""
        experiments = self._client.search_experiments(filter_string=f"name LIKE '{PREFIX}%'")
        ids = [experiment.experiment_id for experiment in experiments]
        runs = self._client.search_runs(ids, order_by=["attributes.start_time DESC"], max_results=1) if ids else []
        return str(runs[0].info.experiment_id) if runs else None

    def _experiment(self, suite: str) -> str:
        """The id of the suite's experiment; makes or restores it, and saves its views, if needed."""
        if suite not in self._experiments:
            name = PREFIX + suite
            experiment = self._client.get_experiment_by_name(name)
            if experiment is None:
                location = proxied(suite) if is_own(self._root) else None
                experiment = self._client.get_experiment(self._client.create_experiment(name, location))
            elif experiment.lifecycle_stage == LifecycleStage.DELETED:
                self._client.restore_experiment(experiment.experiment_id)
            if is_own(self._root):
                folder_of(experiment.artifact_location, self._root)  # refuses one of another place
            for key, value in view_tags(_now_ms(), experiment.tags).items():
                self._client.set_experiment_tag(experiment.experiment_id, key, value)
            self._experiments[suite] = experiment.experiment_id
        return self._experiments[suite]

    def _run_id(self, experiment_id: str, record: Record) -> str | None:
        if key_of(record) not in self._run_ids:
            for run in self._runs_of(experiment_id, record):
                self._run_ids[key_of(record)] = run.info.run_id
        return self._run_ids.get(key_of(record))

    def _runs_of(self, experiment_id: str, record: Record) -> Iterator[MLflowRun]:
        """The runs of `record`: more than one if a delivery was interrupted."""
        runs = self._runs(experiment_id, f"tags.record = '{record.name}'")
        return (run for run in runs if _key(run) == key_of(record))

    def _runs(self, experiment_id: str, condition: str) -> Iterator[MLflowRun]:
        token = None
        while True:
            page = self._client.search_runs(
                [experiment_id], condition, ViewType.ACTIVE_ONLY, max_results=1000, page_token=token
            )
            yield from page
            token = page.token
            if not token:
                return

    def _log(self, experiment_id: str, record: Record) -> None:
        run = translate(record)
        tags = {key: value[:MAX_TAG] for key, value in run.tags.items()} | {NOTE: run.note[: MAX_TAG - MAX_LINK]}
        created = self._client.create_run(experiment_id, run.start_ms, tags, self._free_name(experiment_id, record))
        run_id = self._run_ids[key_of(record)] = created.info.run_id
        metrics = [Metric(*point) for point in run.points]
        params = [Param(key, value) for key, value in run.params.items()]
        for start in range(0, len(metrics), MAX_METRICS):
            self._client.log_batch(run_id, metrics[start : start + MAX_METRICS], params)
            params = []
        if record.data is not None:
            self._client.log_inputs(run_id, [_dataset(record.data, record.cell.mode)])
        self._write(created, "record.json", json.dumps(record.to_json(), indent=1))
        self._client.set_terminated(run_id, run.status, run.end_ms)
        # Last, so that the run is finished even if drawing fails.
        if (picture := run_picture.draw(record)) is not None:
            self._write(created, "samples.svg", picture)

    def _free_name(self, experiment_id: str, record: Record) -> str:
        """The label; with the start of the process if another run has that name, or if MLflow could not look for it."""
        label = record.label
        is_free = PLAIN.fullmatch(label) and not any(self._runs(experiment_id, f"attributes.run_name = '{label}'"))
        return label if is_free else f"{label} {record.started_at.partition('+')[0].replace('T', ' ')}"

    def _write(self, run: MLflowRun, name: str, text: str) -> None:
        """Adds a file to the run. MLflow's client writes to a server or a cloud's store, but not to our own address."""
        folder = folder_of(run.info.artifact_uri, self._root) if is_own(self._root) else None
        if folder is None:
            self._client.log_text(run.info.run_id, text, name)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)


class MLflowSink(Sink):
    """Delivers the records of a sweep to the MLflow store."""

    name = "MLflow"

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root

    def _open(self) -> None:
        self._store = Store(self._root)

    def _send(self, record: Record) -> None:
        self._store.deliver([record])

    def _relate(self, found: Sequence[RelativeSpeed], cells: Sequence[MeasuredCell]) -> None:
        self._store.relate(found)
        self._store.show_cells(cells)

    def _find(self, record: Record) -> str | None:
        return self._store.link(record)


def key_of(record: Record) -> Key:
    """The key of the run of `record`."""
    return Key(record.name, record.started_at)


def _key(run: MLflowRun) -> Key:
    return Key(run.data.tags["record"], run.data.tags["started_at"])


def _now_ms() -> int:
    return round(time.time() * 1000)


def _dataset(data: Data, mode: str) -> DatasetInput:
    dataset = Dataset(data_name(data), data.digest[:DIGEST_LENGTH], "local", json.dumps({"uri": data.source}))
    return DatasetInput(dataset, [InputTag("mlflow.data.context", mode)])
