import base64
import json
import zlib

from accelbench.sinks import mlflow_fields


def test_every_metric_of_the_view_exists_and_it_is_left_alone_once_it_is_there():
    tags = mlflow_fields.view_tags(1, {})
    kind, _, data = json.loads(tags[mlflow_fields.VIEW_TAG])["state"].partition(";")
    assert kind == "deflate"
    state = json.loads(zlib.decompress(base64.b64decode(data)))
    keys = {chart["metricKey"] for chart in state["compareRunCharts"] if chart["type"] == "BAR"}
    for chart in state["compareRunCharts"]:
        if chart["type"] == "SCATTER":
            keys |= {chart["xaxis"]["key"], chart["yaxis"]["key"]}
        if chart["type"] == "PARALLEL":
            keys |= set(chart["selectedMetrics"])
            assert set(chart["selectedParams"]) <= set(mlflow_fields.PARAMS)
    keys |= {column.split("`")[1] for column in state["selectedColumns"] if column.startswith("metrics.")}
    assert keys <= {*(mlflow_fields.SETTINGS | mlflow_fields.OUTCOME | mlflow_fields.MEASURED), mlflow_fields.SHARE}
    assert mlflow_fields.view_tags(2, tags) == {}


def test_ids_that_a_server_made_up_stay_in_their_place():
    assert mlflow_fields.run_url("http://x", "1/../2", "\x1b[31m?a#b") == (
        "http://x/#/experiments/1%2F..%2F2/runs/%1B%5B31m%3Fa%23b?workflowType=machine_learning"
    )
    assert "/#/experiments/%1B%5D0%3B/runs?" in mlflow_fields.view_url("http://x", "\x1b]0;")
