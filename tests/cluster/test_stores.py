"""MLflow's store in PostgreSQL with artifacts in S3, records and a DVC remote in S3."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from cluster.servers import LOOPBACK, PORTS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
DATABASE = f"postgresql+psycopg2://accelbench@{LOOPBACK}:{PORTS['postgres']}"


@pytest.fixture
def bucket(variables, request):
    """A new bucket's name, and its client."""
    import boto3  # only the environment of these tests has it, and `make test` reads this file too

    name = f"bucket-{time.time_ns()}"
    client = boto3.client(
        "s3",
        endpoint_url=variables["AWS_ENDPOINT_URL"],
        aws_access_key_id="test",
        aws_secret_access_key="test",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=name)
    yield name, client
    client.close()


def keys(bucket):
    name, client = bucket
    return [each["Key"] for each in client.list_objects_v2(Bucket=name).get("Contents", [])]


@pytest.fixture
def mlflow(commands, bucket):
    """The database of an MLflow server, whose files are in S3."""
    database = f"mlflow_{time.time_ns()}"
    commands.run("createdb", "-h", LOOPBACK, "-p", str(PORTS["postgres"]), "-U", "accelbench", database)
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", LOOPBACK, "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"{DATABASE}/{database}", "--artifacts-destination", f"s3://{bucket[0]}/mlflow"]
    with (commands.folder / "mlflow.log").open("w") as log:
        server = subprocess.Popen(
            command, env=commands.variables, stdout=log, stderr=log, start_new_session=True, cwd=commands.folder
        )
    address = f"http://{LOOPBACK}:{port}"
    commands.variables["MLFLOW_TRACKING_URI"] = address
    commands.until(lambda: subprocess.run(["curl", "-sf", f"{address}/health"], capture_output=True).returncode == 0)
    yield f"postgresql://accelbench@{LOOPBACK}:{PORTS['postgres']}/{database}"
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def test_a_sweep_through_slurm_is_delivered_to_postgresql_and_s3(commands, bucket, mlflow):
    text = commands.sweep("executor=slurm", "batch_size=1,2", "out=runs/tracked")
    assert "did not reach" not in text
    query = "select value, run_uuid from runs join tags using (run_uuid) where key = 'record' and status = 'FINISHED'"
    runs = dict(line.split("|") for line in commands.run("psql", mlflow, "-Atc", query).split())
    assert sorted(runs) == sorted(path.stem for path in (commands.folder / "runs/tracked").glob("*-*.json"))
    stored = keys(bucket)
    assert all(any(run in key for key in stored) for run in runs.values())
    done = commands.run(sys.executable, "-m", "accelbench.cli", "sync")
    assert "MLflow: 0 runs delivered, 2 already there." in done


def test_records_in_s3_are_merged(commands, bucket):
    commands.sweep("executor=slurm", "tracking=none", "batch_size=1,2", "out=runs/far")
    name, client = bucket
    for path in (commands.folder / "runs/far").glob("*.json"):
        client.upload_file(str(path), name, f"results/far/{path.name}")
    merge = [sys.executable, "-m", "accelbench.cli", "merge", f"s3://{name}/results", "--into", "merged"]
    assert "2" in commands.run(*merge)
    for path in (commands.folder / "runs/far").glob("*-*.json"):
        assert json.loads((commands.folder / "merged/far" / path.name).read_text()) == json.loads(path.read_text())
    assert "s3" not in (commands.folder / "merged/far/plan.json").read_text()
    commands.run(*merge)
    assert len(list((commands.folder / "merged/far").glob("*-*.json"))) == 2
