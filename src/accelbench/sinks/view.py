"""The saved views of an experiment: the charts and columns that MLflow's UI opens with.

The format is the one of MLflow's "share view" (3.17), which is documented only by the UI's source.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

KEY, QUALITY_KEY, SWEEPS_KEY = "accelbench", "accelbench-quality", "accelbench-sweeps"
PREFIX = "mlflow.sharedViewState."
TAG = PREFIX + KEY
SPEED, SHARE, ACCURACY = "speed/samples_per_s", "speed/share_of_fastest", "quality/accuracy"
VERDICT = "verdict"  # the tag that says how far a run is behind the fastest of its kind, and how sure that is
COMPARE = "[Compare with the fastest]"
MEASUREMENTS = "tags.record != ''"  # without the means of cells, which are runs too
HAS_ACCURACY = f"metrics.`{ACCURACY}` >= 0"
COLUMNS = """
tags.`status` params.`model` params.`mode` params.`device` params.`precision` params.`batch_size`
metrics.`speed/samples_per_s` metrics.`speed/share_of_fastest` tags.`verdict` metrics.`latency/p50_ms`
metrics.`time/job_s` tags.`time_provenance`
metrics.`quality/accuracy` metrics.`memory/peak_host_mb` metrics.`memory/peak_device_mb`
params.`data` tags.`reason`
""".split()  # noqa: SIM905


def view_tags(now_ms: int, present: Mapping[str, str]) -> dict[str, str]:
    """The tags to set for the saved views, on an experiment with the tags `present`; empty if they are up to date."""
    tags = {}
    for key, (name, state) in _views().items():
        text = json.dumps(state, separators=(",", ":"))
        packed = "deflate;" + base64.b64encode(zlib.compress(text.encode())).decode()
        saved = json.loads(present.get(PREFIX + key, "{}"))
        if saved.get("state") != packed:
            created = saved.get("createdAt", now_ms)
            view = {"name": name, "createdAt": created, "updatedAt": now_ms, "state": packed}
            tags[PREFIX + key] = json.dumps(view)
    if tags:
        # Without it, the UI guesses the kind of experiment, and asks.
        tags["mlflow.experimentKind"] = "custom_model_development"
    return tags


def view_url(base: str, experiment_id: str) -> str:
    """The page of the experiment's first saved view on the server at `base`."""
    query = f"workflowType=machine_learning&viewStateShareKey={KEY}&compareRunsMode=CHART"
    return f"{base.rstrip('/')}/#/experiments/{quote(experiment_id, safe='')}/runs?{query}"


def run_url(base: str, experiment_id: str, run_id: str) -> str:
    """The page of one run on the server at `base`. The ids come from a server, which may send anything."""
    path = f"experiments/{quote(experiment_id, safe='')}/runs/{quote(run_id, safe='')}"
    return f"{base.rstrip('/')}/#/{path}?workflowType=machine_learning"


def compare_link(experiment_id: str, run_id: str, fastest_id: str) -> str:
    """A link, in markdown, from a run's page to MLflow's comparison of the run with the fastest one of its sweep."""
    runs, experiments = (quote(json.dumps(ids)) for ids in ([run_id, fastest_id], [experiment_id]))
    return f"{COMPARE}(#/compare-runs?runs={runs}&experiments={experiments})"


def _views() -> dict[str, tuple[str, dict[str, Any]]]:
    """By key, the name of each view and its state in the UI."""
    params = ["mode", "device", "precision", "batch_size", "model"]
    speeds = [
        _chart("PARALLEL", selectedParams=params, selectedMetrics=[SPEED, SHARE], showAllRuns=True),
        _scatter("setting/batch_size", SHARE),
        _scatter(SPEED, "latency/p50_ms"),
        *(_bars(metric) for metric in (SPEED, SHARE, "time/job_s")),
    ]
    accuracies = [_scatter(SPEED, ACCURACY), _scatter("time/job_s", ACCURACY), _bars(ACCURACY)]
    accuracies.append(_bars("quality/test_loss"))
    # Groups the table only: averages over different cells are not drawn.
    by_sweep = {"aggregateFunction": "average", "groupByKeys": [{"mode": "tag", "groupByData": "sweep_id"}]}
    return {
        KEY: ("accelbench", _state(speeds, SPEED)),
        QUALITY_KEY: ("Speed and accuracy", _state(accuracies, ACCURACY, searchFilter=HAS_ACCURACY)),
        SWEEPS_KEY: ("By sweep", _state(speeds, SPEED, groupBy=by_sweep)),
    }


def _state(charts: list[dict[str, Any]], order_by: str, **changes: Any) -> dict[str, Any]:
    uuid = "accelbench-overview"
    place = {"metricSectionId": uuid, "isGenerated": False, "deleted": False}
    section = {"uuid": uuid, "name": "Overview", "display": True, "isReordered": True, "columns": 2, "cardHeight": 420}
    return {
        "searchFilter": MEASUREMENTS,
        "orderByKey": f"metrics.`{order_by}`",
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "selectedColumns": ["attributes.`Duration`", *COLUMNS],
        "runsExpanded": {},
        "runsPinned": [],
        "runsHidden": [],
        "runsHiddenMode": "SHOW_ALL",
        "hideEmptyCharts": True,
        "isAccordionReordered": True,
        "useGroupedValuesInCharts": False,
        "groupBy": None,
        "compareRunSections": [section],
        "compareRunCharts": [{"uuid": f"{uuid}-{index}", **place, **chart} for index, chart in enumerate(charts)],
        **changes,
    }


def _chart(kind: str, num_runs: int = 100, **shown: Any) -> dict[str, Any]:
    return {"type": kind, **shown, "runsCountToCompare": num_runs}


def _scatter(x: str, y: str) -> dict[str, Any]:
    return _chart("SCATTER", xaxis={"key": x, "type": "METRIC"}, yaxis={"key": y, "type": "METRIC"})


def _bars(metric: str) -> dict[str, Any]:
    return _chart("BAR", 20, metricKey=metric)
