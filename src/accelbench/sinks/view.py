"""The saved view of an experiment: the charts and columns that MLflow's UI opens with.

The format is that of MLflow's own "share view" (3.17); it is documented nowhere but in the UI's source.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

KEY = "accelbench"
TAG = f"mlflow.sharedViewState.{KEY}"
SPEED = "speed/samples_per_s"
COLUMNS = """
tags.`status` params.`model` params.`mode` params.`device` params.`precision` params.`batch_size`
metrics.`speed/samples_per_s` metrics.`latency/p50_ms` metrics.`time/job_s` tags.`time_provenance`
metrics.`quality/accuracy` metrics.`memory/peak_host_mb` metrics.`memory/peak_device_mb`
params.`data` tags.`reason`
""".split()  # noqa: SIM905


def view_tags(now_ms: int, present: Mapping[str, str]) -> dict[str, str]:
    """The experiment tags that are to be set, so that the saved view is there: none where it already is.

    Args:
        now_ms: milliseconds since 1970, UTC.
        present: the experiment's tags.
    """
    text = json.dumps(_view(), separators=(",", ":"))
    state = "deflate;" + base64.b64encode(zlib.compress(text.encode())).decode()
    saved = json.loads(present.get(TAG, "{}"))
    if saved.get("state") == state:
        return {}
    created = saved.get("createdAt", now_ms)
    return {
        TAG: json.dumps({"name": "accelbench", "createdAt": created, "updatedAt": now_ms, "state": state}),
        # Else the UI guesses what the experiment is for, and asks.
        "mlflow.experimentKind": "custom_model_development",
    }


def view_url(base: str, experiment_id: str) -> str:
    """The page of the experiment's saved view on the server at `base`."""
    query = f"workflowType=machine_learning&viewStateShareKey={KEY}&compareRunsMode=CHART"
    return f"{base.rstrip('/')}/#/experiments/{experiment_id}/runs?{query}"


def _view() -> dict[str, Any]:
    overview = "accelbench-overview"
    return {
        "searchFilter": "",
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
        "compareRunSections": [
            {
                "uuid": overview,
                "name": "Overview",
                "display": True,
                "isReordered": True,
                "columns": 2,
                "cardHeight": 420,
            }
        ],
        "compareRunCharts": [
            {
                "uuid": f"{overview}-{index}",
                "metricSectionId": overview,
                "isGenerated": False,
                "deleted": False,
                **chart,
            }
            for index, chart in enumerate(_charts())
        ],
    }


def _charts() -> list[dict[str, Any]]:
    return [
        {
            "type": "PARALLEL",
            "selectedParams": ["mode", "device", "precision", "batch_size", "model"],
            "selectedMetrics": [SPEED],
            "showAllRuns": True,
            "runsCountToCompare": 100,
        },
        _scatter("setting/batch_size", SPEED),
        _scatter(SPEED, "latency/p50_ms"),
        {"type": "BAR", "metricKey": SPEED, "runsCountToCompare": 20},
        {"type": "BAR", "metricKey": "time/job_s", "runsCountToCompare": 20},
        {"type": "BAR", "metricKey": "quality/accuracy", "runsCountToCompare": 20},
    ]


def _scatter(x: str, y: str) -> dict[str, Any]:
    return {
        "type": "SCATTER",
        "xaxis": {"key": x, "type": "METRIC"},
        "yaxis": {"key": y, "type": "METRIC"},
        "runsCountToCompare": 100,
    }
