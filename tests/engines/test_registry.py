import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from accelbench.engines import registry
from accelbench.engines.registry import host_spec
from accelbench.engines.targets import LIGHTNING
from accelbench.grid.fingerprint import BUILT_ON
from accelbench.schema.cell import EXPORTING, Device, Engine, KerasSettings
from fakes import TESTS, make_cell


def keras_spec(**changes):
    return host_spec(make_cell(engine=Engine.keras, keras=KerasSettings(), **changes))


def test_each_device_gets_the_environment_that_its_library_reads_at_import_in_a_host_of_its_own():
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


def test_keras_has_its_own_host_which_sees_no_gpu_on_a_cpu_cell():
    assert keras_spec().environment["CUDA_VISIBLE_DEVICES"] == ""
    assert keras_spec().key != host_spec(make_cell()).key
    on_gpu = keras_spec(device=Device.gpu).environment
    expected = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    assert expected.items() <= on_gpu.items()
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


def printed(code):
    return subprocess.run([sys.executable, "-c", code], cwd=TESTS, capture_output=True, text=True, check=True).stdout


def test_the_registry_imports_no_framework():
    code = (
        "import sys; from accelbench.engines.registry import host_spec; from accelbench.schema.cell import *;"
        "from fakes import make_cell; from accelbench.schema.cell import *;"
        "print([host_spec(make_cell(engine=engine, keras=KerasSettings())).engine for engine in Engine]);"
        "print([name for name in ('torch', 'keras', 'tensorflow', 'numpy') if name in sys.modules])"
    )
    engines, frameworks = printed(code).splitlines()
    folders = {*Engine} - EXPORTING | {"exported"}
    assert all(f"accelbench.engines.{folder}.engine" in engines for folder in folders)
    assert frameworks == "[]"


def test_a_cell_runs_where_what_it_does_not_need_is_not_installed():
    """Like the Python of another environment, which has torch but not Lightning."""
    hidden = ["PIL", "torchvision", "matplotlib", "hydra", "omegaconf", "rich", "mlflow", "lightning_fabric"]
    hidden += LIGHTNING
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({hidden}));"
        "import importlib, accelbench.worker; from pathlib import Path; from fakes import *;"
        "from accelbench.engines.registry import host_spec;"
        "cell = make_cell(data=DataSpec(name='random', pipeline='host'), mode=Mode.train);"
        "[importlib.import_module(name) for name in host_spec(cell).preload];"
        "print(importlib.import_module(host_spec(cell).engine).run(cell, Path()).precision)"
    )
    assert printed(code) == "fp32\n"
