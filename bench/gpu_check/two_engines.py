"""The same cells by Lightning and by Keras, on the GPU; Keras from the environment of `make setup-keras-gpu`."""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile

from accelbench.project import workplace
from accelbench.schema.cell import KerasSettings
from accelbench.schema.vocab import Device, Engine, Mode, Pipeline, Precision
from accelbench.stats.order_statistics import median
from bench.gpu_check import cases
from bench.gpu_check.findings import figure, problem, skipped

PYTHON = ".venv-keras-gpu/bin/python"
TIMEOUT_S = 60


def main(device: Device) -> None:
    """Runs two cells on both engines."""
    keras = workplace().root / PYTHON
    if device == Device.gpu and not keras.exists():
        skipped("Keras' GPU environment is not installed (make setup-keras-gpu)")
        return
    for model in (cases.MLP, cases.CNN):
        cell = cases.cell(device, model, Mode.infer, Precision.fp32, 128)
        cell = dataclasses.replace(cell, data=dataclasses.replace(cell.data, pipeline=Pipeline.host))
        for engine, python in ((Engine.lightning, sys.executable), (Engine.keras, str(keras))):
            settings = KerasSettings() if engine == Engine.keras else None
            _run(python, json.dumps(dataclasses.replace(cell, engine=engine, keras=settings).to_json()), engine)


def _run(python: str, cell: str, engine: Engine) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-m", "bench.gpu_check.one_cell", cell, folder]
        environment = dict(os.environ)
        if engine == Engine.keras:  # without the packages that were installed for this Python
            environment["PYTHONPATH"] = os.pathsep.join([str(workplace().root / "src"), str(workplace().root)])
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=TIMEOUT_S, check=False)
    try:
        values = json.loads(ran.stdout)
    except ValueError:
        problem(f"{engine}: {(ran.stderr.strip().splitlines() or ['no answer'])[-1]}")
        return
    if values["status"] != "ok":
        problem(f"{engine}: {values['status']}: {values['reason']}")
        return
    rate = median([block["num_samples"] / block["seconds"] for block in values["measurement"]["blocks"]])
    name = json.loads(cell)["model"]["name"]
    figure(f"{name}: {engine} {rate:,.0f}/s on {values['measurement']['device_name']}")


if __name__ == "__main__":
    main(Device(sys.argv[1]))
