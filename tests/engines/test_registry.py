import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from accelbench.engines import registry
from accelbench.engines.registry import host_spec
from accelbench.schema.cell import KerasSettings, Options
from accelbench.schema.vocab import Allocator, Device, Engine, KerasBackend
from fakes import TESTS, make_cell


def test_each_device_gets_the_environment_that_its_library_reads_at_import():
    environments = {device: dict(host_spec(make_cell(device=device)).environment) for device in Device}
    assert environments == {
        Device.cpu: {},
        # As NVML numbers GPUs: what is sampled is what computes.
        Device.gpu: {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        Device.tpu: {"PJRT_DEVICE": "TPU"},
        Device.xla_cpu: {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "1"},
    }


def test_cells_that_need_different_environments_share_no_host():
    keys = {host_spec(make_cell(device=device)).key for device in Device}
    assert len(keys) == len(Device)
    assert host_spec(make_cell(batch_size=1)).key == host_spec(make_cell(batch_size=2)).key


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
def test_cells_with_another_allocator_have_another_host_of_every_engine():
    reuse = Options(allocator=Allocator.glibc_reuse)
    for changes in ({}, {"device": Device.xla_cpu}, {"engine": Engine.keras, "keras": KerasSettings()}):
        plain, other = (host_spec(make_cell(**changes, options=options)) for options in (Options(), reuse))
        assert plain.key != other.key
        assert "trim_threshold" in other.environment.pop("GLIBC_TUNABLES")
        assert other.environment == plain.environment


def test_each_backend_of_keras_has_its_own_host_which_sees_no_gpu_on_a_cpu_cell():
    settings = {backend: KerasSettings(backend=backend) for backend in KerasBackend}
    specs = {backend: host_spec(make_cell(engine=Engine.keras, keras=keras)) for backend, keras in settings.items()}
    assert {spec.environment["KERAS_BACKEND"] for spec in specs.values()} == set(KerasBackend)
    assert {spec.environment["CUDA_VISIBLE_DEVICES"] for spec in specs.values()} == {""}
    assert len({spec.key for spec in [*specs.values(), host_spec(make_cell())]}) == 3
    on_gpu = host_spec(make_cell(engine=Engine.keras, keras=KerasSettings(), device=Device.gpu))
    assert "CUDA_VISIBLE_DEVICES" not in on_gpu.environment
    assert on_gpu.environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert on_gpu.environment["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert on_gpu.environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"


def test_only_lightning_probes_a_device():
    assert host_spec(make_cell()).prober
    assert host_spec(make_cell(engine=Engine.keras, keras=KerasSettings())).prober is None


@pytest.mark.parametrize("engine", Engine)
def test_every_engine_names_modules_that_exist(engine):
    spec = host_spec(make_cell(engine=engine, keras=KerasSettings() if engine == Engine.keras else None))
    named = [spec.engine, *spec.preload, *([spec.prober] if spec.prober else [])]
    assert all(importlib.util.find_spec(name) for name in named)


def test_a_spec_imports_no_framework():
    code = (
        "import sys; from accelbench.engines.registry import host_spec; from accelbench.schema.cell import *;"
        "from fakes import make_cell; from accelbench.schema.vocab import *;"
        "print([host_spec(make_cell(engine=each, keras=KerasSettings())).engine for each in Engine]);"
        "print([name for name in ('torch', 'keras', 'tensorflow', 'jax', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=TESTS, capture_output=True, text=True, check=True)
    engines, frameworks = done.stdout.splitlines()
    assert [f"accelbench.engines.{engine}.engine" in engines for engine in Engine] == [True] * len(Engine)
    assert frameworks == "[]"


@pytest.mark.parametrize("engine", Engine)
def test_an_engine_imports_no_other_one(engine):
    folder = Path(registry.__file__).parent
    sources = {path: path.read_text() for path in (folder / engine).rglob("*.py")}
    assert len(sources) > 1
    for other in set(Engine) - {engine}:
        assert [path for path, text in sources.items() if f"accelbench.engines.{other}" in text] == []
