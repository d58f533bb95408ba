"""What the tests do with real stores of MLflow."""

import socket
import subprocess
import sys

from accelbench.sinks.delivery import Delivery

SUITE = "mnist_networks"


def started(code, *arguments, **options):
    """A process that runs a function of the sinks' with the path and the others of its arguments."""
    code = f"import sys; from pathlib import Path; from accelbench.sinks import mlflow, ui; {code}"
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], text=True, **options)


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def opened(root):
    delivery = Delivery("mlflow", root)
    delivery.open()
    return delivery


def deliver(root, *to_deliver):
    delivery = opened(root)
    for one in to_deliver:
        delivery.add(one)
    delivery.deliver()
    return delivery


def client_of(root):
    from mlflow import MlflowClient

    return MlflowClient(f"sqlite:///{root}/mlflow.db")


def split(root, suite=SUITE):
    """The runs of processes, and those of cells (of which a process may be the only one)."""
    client = client_of(root)
    experiment = client.get_experiment_by_name(f"accelbench/{suite}")
    runs = client.search_runs([experiment.experiment_id], max_results=1000) if experiment else []
    return [run for run in runs if "record" in run.data.tags], [run for run in runs if "word" in run.data.tags]
