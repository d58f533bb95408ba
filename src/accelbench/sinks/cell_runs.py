"""The runs of MLflow that show cells of several processes: they have no tag `record`, as measurements have."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from accelbench.answers.cells import MeasuredCell

KIND, AGGREGATE = "accelbench.kind", "aggregate"
KEY = "accelbench.cell_key"
IS_CELL = f"tags.`{KIND}` = '{AGGREGATE}'"  # as MLflow searches
NUM = "cell/num_processes"
# The names differ from a measurement's, so that no chart mixes them.
COLUMNS = ("samples_per_s", "samples_per_s_low", "samples_per_s_high", "latency_p50_ms", "energy_j_per_sample")
SHOWN = ("model", "mode", "data", "device", "precision", "batch_size", "engine", "protocol")
NOTE = (
    "No measurement: the published speed of a cell, of all its processes (its repeats and seeds, on one machine with "
    "one software), with its 95 % interval; its other figures are of the process that is nearest to it."
)

LogValues = Callable[[str, Mapping[str, float], Mapping[str, str], int], None]


def write(client: Any, experiment_id: str, known: Iterable[Any], cells: Sequence[MeasuredCell], log: LogValues) -> None:
    """Makes or updates a run for each cell; one that counts more processes stays as it is.

    Args:
        client: of MLflow, which only `sinks/mlflow.py` imports.
        experiment_id: of all these runs.
        known: those that are there, also those that a killed process left unfinished.
        cells: of several processes each.
        log: logs the metrics and the settings of a run, at a step.
    """
    runs: dict[str, Any] = {}
    for run in known:
        if runs.setdefault(run.data.tags[KEY], run) is not run:
            client.delete_run(run.info.run_id)
    for cell in cells:
        run, metrics = runs.get(cell.measured_key), _metrics(cell)
        if run is not None and run.info.status == "FINISHED" and run.data.metrics.get(NUM, 0) > cell.num_processes:
            continue
        if run is not None and run.data.metrics == metrics:
            continue
        if run is not None and run.data.metrics.keys() - metrics.keys():  # a metric can't be taken away
            client.delete_run(run.info.run_id)
            run = None
        spans = [(_start_s(each.record), each.record.wall_s) for each in cell.counted if each.record is not None]
        if run is None:
            tags = {KIND: AGGREGATE, KEY: cell.measured_key, "mlflow.source.name": "accelbench"}
            tags["mlflow.note.content"] = NOTE
            name = f"cell {cell.label} {cell.measured_key[:6]}"
            run = client.create_run(experiment_id, round(1000 * min(spans)[0]), tags, name)
        params = {name: str(cell.row[name]) for name in SHOWN if cell.row[name] is not None}
        log(run.info.run_id, metrics, params, cell.num_processes)
        client.set_terminated(run.info.run_id, "FINISHED", round(1000 * max(start + wall for start, wall in spans)))


def _metrics(cell: MeasuredCell) -> dict[str, float]:
    known = {f"cell/{name}": value for name in COLUMNS if (value := cell.number(name)) is not None}
    return known | {NUM: float(cell.num_processes)}


def _start_s(record: Any) -> float:
    return datetime.fromisoformat(record.started_at).timestamp()
