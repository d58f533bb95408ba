"""The saved view of an experiment: the charts and columns that MLflow's UI opens with.

The format is the one of MLflow's "share view" (3.17), which is documented only by the UI's source.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

KEY = "accelbench"
TAG = f"mlflow.sharedViewState.{KEY}"
SPEED, SHARE, ACCURACY = "speed/samples_per_s", "speed/share_of_fastest", "quality/accuracy"
VERDICT = "verdict"  # the tag that says how far a run is behind the fastest of its kind, and how sure that is
MEASUREMENTS = "tags.record != ''"  # without the means of cells, which are runs too
COLUMNS = """
tags.`status` params.`model` params.`mode` params.`device` params.`precision` params.`batch_size`
metrics.`speed/samples_per_s` metrics.`speed/share_of_fastest` tags.`verdict` metrics.`latency/p50_ms`
metrics.`time/job_s` tags.`time_provenance`
metrics.`quality/accuracy` metrics.`memory/peak_host_mb` metrics.`memory/peak_device_mb`
params.`data` tags.`reason`
""".split()  # noqa: SIM905


def view_tags(now_ms: int, present: Mapping[str, str]) -> dict[str, str]:
    """The tags to set for the saved view, on an experiment with the tags `present`; empty if they are up to date."""
    text = json.dumps(_state(), separators=(",", ":"))
    packed = "deflate;" + base64.b64encode(zlib.compress(text.encode())).decode()
    saved = json.loads(present.get(TAG, "{}"))
    if saved.get("state") == packed:
        return {}
    view = {"name": KEY, "createdAt": saved.get("createdAt", now_ms), "updatedAt": now_ms, "state": packed}
    # Without a kind, the UI guesses one, and asks.
    return {TAG: json.dumps(view), "mlflow.experimentKind": "custom_model_development"}


def view_url(base: str, experiment_id: str) -> str:
    """The page of the experiment's saved view on the server at `base`."""
    query = f"workflowType=machine_learning&viewStateShareKey={KEY}&compareRunsMode=CHART"
    return f"{base.rstrip('/')}/#/experiments/{quote(experiment_id, safe='')}/runs?{query}"


def run_url(base: str, experiment_id: str, run_id: str) -> str:
    """The page of one run on the server at `base`. The ids come from a server, which may send anything."""
    path = f"experiments/{quote(experiment_id, safe='')}/runs/{quote(run_id, safe='')}"
    return f"{base.rstrip('/')}/#/{path}?workflowType=machine_learning"


def _state() -> dict[str, Any]:
    """The view's state in the UI."""
    params = ["mode", "device", "precision", "batch_size", "model"]
    charts = [
        _chart("PARALLEL", selectedParams=params, selectedMetrics=[SPEED, SHARE], showAllRuns=True),
        _scatter("setting/batch_size", SHARE),
        _scatter(SPEED, "latency/p50_ms"),
        *(_bars(metric) for metric in (SPEED, SHARE, "time/job_s")),
        # Those of runs that have an accuracy; without any, they are hidden.
        _scatter(SPEED, ACCURACY),
        _scatter("time/job_s", ACCURACY),
        _bars(ACCURACY),
        _bars("quality/test_loss"),
    ]
    uuid = "accelbench-overview"
    place = {"metricSectionId": uuid, "isGenerated": False, "deleted": False}
    section = {"uuid": uuid, "name": "Overview", "display": True, "isReordered": True, "columns": 2, "cardHeight": 420}
    return {
        "searchFilter": MEASUREMENTS,
        "orderByKey": f"metrics.`{SPEED}`",
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
    }


def _chart(kind: str, num_runs: int = 100, **shown: Any) -> dict[str, Any]:
    return {"type": kind, **shown, "runsCountToCompare": num_runs}


def _scatter(x: str, y: str) -> dict[str, Any]:
    return _chart("SCATTER", xaxis={"key": x, "type": "METRIC"}, yaxis={"key": y, "type": "METRIC"})


def _bars(metric: str) -> dict[str, Any]:
    return _chart("BAR", 20, metricKey=metric)
