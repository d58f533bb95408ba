import importlib.util
from importlib.metadata import version
from pathlib import Path

import pytest

from accelbench.engines import registry
from accelbench.engines.registry import LIGHT_IMPORT, NOTE_MALLOC, host_spec
from accelbench.engines.targets import LIGHTNING
from accelbench.grid.fingerprint import BUILT_ON
from accelbench.schema.cell import EXPORTING, Device, Engine, KerasSettings
from engines.cells import printed
from fakes import make_cell


def keras_spec(**changes):
    return host_spec(make_cell(engine=Engine.keras, keras=KerasSettings(), **changes))


def test_each_device_and_library_has_its_own_host_with_the_environment_that_it_reads_at_import():
    specs = {device: host_spec(make_cell(device=device)) for device in Device}
    assert {device: dict(spec.environment) for device, spec in specs.items()} == {
        Device.cpu: {},
        # GPUs are numbered as in NVML, so that the sampler reads the GPU that computes.
        Device.gpu: {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        Device.tpu: {"PJRT_DEVICE": "TPU"},
        Device.xla_cpu: {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "1"},
    }
    assert len({spec.key for spec in specs.values()}) == len(Device)
    assert host_spec(make_cell(batch_size=1)).key == host_spec(make_cell(batch_size=2)).key
    # Malloc's thresholds are noted as a script has them that imports the framework alone.
    first = ("torch", LIGHT_IMPORT, "pytorch_lightning", NOTE_MALLOC)
    assert host_spec(make_cell(engine=Engine.lightning)).preload[:4] == first
    assert keras_spec().key != host_spec(make_cell()).key
    assert keras_spec().environment["CUDA_VISIBLE_DEVICES"] == ""
    on_gpu = keras_spec(device=Device.gpu).environment
    assert on_gpu == {**on_gpu, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    assert "CUDA_VISIBLE_DEVICES" not in on_gpu


@pytest.mark.parametrize("engine", Engine)
def test_an_engine_names_modules_that_exist_and_imports_no_other_engine(engine):
    spec = keras_spec() if engine == Engine.keras else host_spec(make_cell(engine=engine))
    assert all(importlib.util.find_spec(name) for name in (spec.engine, *spec.preload))
    folder = "exported" if engine in EXPORTING else engine
    sources = {path: path.read_text() for path in (Path(registry.__file__).parent / folder).rglob("*.py")}
    assert len(sources) > 1
    for other in set(Engine) - {engine, *BUILT_ON.get(engine, ())}:
        assert [path for path, text in sources.items() if f"accelbench.engines.{other}" in text] == []


IMPORTS = """
import importlib, sys, threading
for name in sys.argv[1:]:
    importlib.import_module(name)
print(sys.modules["openvino"].__name__, sys.modules["openvino_telemetry"], threading.active_count())
"""


def test_a_host_imports_openvino_without_its_telemetry_and_its_thread():
    assert printed("-c", IMPORTS, *host_spec(make_cell(engine=Engine.openvino)).preload) == ["openvino None 1"]


# Like the Python of another environment, which has torch but not Lightning.
RUNS = """
import importlib, sys
sys.modules.update(dict.fromkeys(sys.argv[1:]))
import accelbench.worker
from pathlib import Path
from accelbench.engines.registry import host_spec
from fakes import *
for mode in (Mode.infer, Mode.train):
    cell = make_cell(data=DataSpec(name='random', pipeline='host'), mode=mode)
    for name in host_spec(cell).preload:
        importlib.import_module(name)
    measured = importlib.import_module(host_spec(cell).engine).run(cell, Path())
    print(measured.precision, measured.work.flops, not {'pandas', 'scipy', 'sympy', 'torch._dynamo'} & {*sys.modules})
"""


def test_a_cell_runs_where_what_it_does_not_need_is_not_installed():
    hidden = ["PIL", "torchvision", "matplotlib", "hydra", "omegaconf", "rich", "mlflow", "lightning_fabric"]
    infer, train = printed("-c", RUNS, *hidden, *LIGHTNING, "transformers")
    if version("torch").startswith("2.9."):  # newer releases import sympy themselves
        assert infer == f"fp32 {2 * 32 * (784 * 512 + 3 * 512 * 512 + 512 * 10)} True"
    assert train.startswith("fp32 ")
