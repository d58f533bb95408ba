"""The runs of MLflow that show the means of cells. They have a tag that no measurement has, and no tag `record`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from accelbench.sinks.means import NUM, CellMean

KIND, AGGREGATE = "accelbench.kind", "aggregate"
KEY = "accelbench.cell_key"
IS_MEAN = f"tags.`{KIND}` = '{AGGREGATE}'"  # as MLflow searches
NOTE = (
    "No measurement: the mean of a cell's processes (its repeats and seeds, on one machine with one software), with "
    "the 95 % interval of the mean."
)

LogValues = Callable[[str, Mapping[str, float], Mapping[str, str], int], None]


def write(client: Any, experiment_id: str, known: Iterable[Any], found: Sequence[CellMean], log: LogValues) -> None:
    """Makes or updates a run for each mean; one that counts more processes stays as it is.

    Args:
        client: of MLflow, which only `sinks/mlflow.py` imports.
        experiment_id: of all means.
        known: the runs of means that are there, also those that a killed process left unfinished.
        found: the means.
        log: logs the metrics and the settings of a run, at a step.
    """
    runs: dict[str, Any] = {}
    for run in known:
        if runs.setdefault(run.data.tags[KEY], run) is not run:
            client.delete_run(run.info.run_id)
    for mean in found:
        run = runs.get(mean.key)
        if run is not None and run.info.status == "FINISHED" and run.data.metrics.get(NUM, 0) > mean.num:
            continue
        if run is not None and run.data.metrics == mean.metrics:
            continue
        if run is not None and run.data.metrics.keys() - mean.metrics.keys():  # a metric can't be taken away
            client.delete_run(run.info.run_id)
            run = None
        if run is None:
            tags = {KIND: AGGREGATE, KEY: mean.key, "mlflow.source.name": "accelbench", "mlflow.note.content": NOTE}
            run = client.create_run(experiment_id, round(1000 * mean.start_s), tags, mean.name)
        log(run.info.run_id, mean.metrics, mean.params, mean.num)
        client.set_terminated(run.info.run_id, "FINISHED", round(1000 * mean.end_s))
