import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from accelbench.devices import nvml
from accelbench.errors import UserError
from accelbench.grid import fingerprint
from accelbench.project import ENVIRONMENT
from accelbench.schema.vocab import EXPORTING, Engine
from devices.fakes import FakeNvml

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture
def package(tmp_path):
    """A copy of the package, free to be changed."""
    return Path(shutil.copytree(fingerprint.PACKAGE, tmp_path / "accelbench", ignore=shutil.ignore_patterns("__pyc*")))


def change(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("# changed\n")


def test_two_calls_agree_and_are_plain_json():
    found = fingerprint.fingerprint()
    assert fingerprint.fingerprint() == found
    assert json.loads(json.dumps(found)) == found
    assert set(found) == {"machine", "versions", "variables", "code"}


def test_a_copy_of_the_code_has_the_same_digest(package):
    assert fingerprint.code_digest(package=package) == fingerprint.code_digest()


@pytest.mark.parametrize(
    "module",
    ["isolation/sampler.py", "measuring/clock.py", "data/arrays.py", "engines/lightning/new.py", "devices/nvml.py"],
)
def test_a_changed_measuring_module_changes_it(package, module):
    before = fingerprint.fingerprint(package=package)
    change(package / module)
    after = fingerprint.fingerprint(package=package)
    assert after["code"] != before["code"]
    assert after["machine"] == before["machine"]


def test_a_renamed_measuring_module_changes_it(package):
    change(package / "engines/one.py")
    before = fingerprint.code_digest(package=package)
    (package / "engines/one.py").rename(package / "engines/two.py")
    assert fingerprint.code_digest(package=package) != before


@pytest.mark.parametrize(
    "module", ["report/build.py", "sinks/mlflow.py", "cli.py", "commands/doctor.py", "data/registry.py"]
)
def test_what_measures_nothing_does_not(package, module):
    before = fingerprint.code_digest(package=package)
    change(package / module)
    assert fingerprint.code_digest(package=package) == before


def test_a_folder_without_the_package_has_no_digest(tmp_path):
    with pytest.raises(FileNotFoundError, match="not the folder"):
        fingerprint.code_digest(package=tmp_path)


@pytest.mark.parametrize("pattern", fingerprint.MEASURING)
def test_every_measuring_pattern_finds_modules(pattern):
    assert list(fingerprint.PACKAGE.glob(pattern))


@pytest.fixture(scope="module")
def imports():
    return grimp.build_graph("accelbench", exclude_type_checking_imports=True, cache_dir=None)


@pytest.mark.parametrize("engine", Engine)
def test_the_code_of_an_identity_is_all_that_a_cells_process_imports(imports, engine):
    started = {f"accelbench.isolation.{name}" for name in ("hosts", "host", "child")}
    started |= {name for name in imports.modules if name.startswith(f"accelbench.engines.{engine}.")}
    imported = started | {upstream for module in started for upstream in imports.find_upstream_modules(module)}
    paths = {Path(f"{'/'.join(name.split('.')[1:])}.py") for name in imported}
    files = {path for path in paths if (fingerprint.PACKAGE / path).is_file()}  # not packages, which are folders
    covered = {path.relative_to(fingerprint.PACKAGE) for path in fingerprint.measuring_code(engine)}
    exempt = set(map(Path, fingerprint.NOT_MEASURING))
    assert files - covered == exempt


def test_a_changed_engine_measures_the_cells_of_no_other_engine_again(package):
    before = {engine: fingerprint.code_digest(engine, package) for engine in Engine}
    change(package / "engines/keras/engine.py")
    after = {engine: fingerprint.code_digest(engine, package) for engine in Engine}
    assert after[Engine.keras] != before[Engine.keras]
    assert after[Engine.lightning] == before[Engine.lightning]


def test_a_new_engine_measures_no_other_engines_cells_again(package):
    before = fingerprint.code_digest(Engine.lightning, package)
    change(package / "engines/onnx/engine.py")
    change(package / "schema/vocab.py")
    assert fingerprint.code_digest(Engine.lightning, package) == before


@pytest.mark.parametrize("shared", ["engines/registry.py", "engines/lightning/probe.py", "schema/cell.py"])
def test_a_changed_shared_file_measures_the_cells_of_every_engine_again(package, shared):
    before = {engine: fingerprint.code_digest(engine, package) for engine in Engine}
    change(package / shared)
    assert all(fingerprint.code_digest(engine, package) != before[engine] for engine in Engine)


def test_the_machine_is_this_one():
    machine = fingerprint.fingerprint()["machine"]
    assert 1 <= machine["num_threads"] <= len(os.sched_getaffinity(0))
    assert machine["python"] == ".".join(map(str, sys.version_info[:3]))
    assert machine["memory_gb"] >= 1
    assert os.uname().nodename not in json.dumps(machine)


def test_only_what_computes_has_its_version_in_it():
    versions = fingerprint.fingerprint()["versions"]
    assert {"torch", "numpy", "pytorch-lightning"} <= set(versions)
    assert not {"mlflow", "dvc", "hydra-core", "pandas", "accelbench"} & set(versions)


def git(folder, *args):
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    shown = subprocess.run(["git", *identity, *args], cwd=folder, capture_output=True, text=True, check=True)
    return shown.stdout.strip()


def test_git_state(tmp_path):
    assert fingerprint.git_state(tmp_path) == {}
    git(tmp_path, "init", "-q", "-b", "trunk")
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-q", "-m", "first")
    revision = git(tmp_path, "rev-parse", "HEAD")
    assert fingerprint.git_state(tmp_path) == {"revision": revision, "branch": "trunk", "dirty": False}
    (tmp_path / "dvc.lock").write_text("what DVC wrote")
    assert not fingerprint.git_state(tmp_path)["dirty"]
    git(tmp_path, "add", "dvc.lock")
    assert not fingerprint.git_state(tmp_path)["dirty"]
    (tmp_path / "a").write_text("2")
    assert fingerprint.git_state(tmp_path)["dirty"]
    git(tmp_path, "checkout", "-q", "--detach")
    assert fingerprint.git_state(tmp_path)["branch"] is None


def test_no_commit_yet(tmp_path):
    git(tmp_path, "init", "-q", "-b", "trunk")
    assert fingerprint.git_state(tmp_path) == {"revision": None, "branch": "trunk", "dirty": False}


def test_git_itself_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fingerprint.git_state(REPO) == {}


@pytest.fixture
def checkout(tmp_path):
    """A second checkout, whose own code must run whatever is installed."""
    root = tmp_path / "checkout"
    shutil.copytree(REPO / "src", root / "src", ignore=shutil.ignore_patterns("__pyc*"))
    (root / "pipelines").mkdir()
    shutil.copy(REPO / "pipelines/write_environment.py", root / "pipelines")
    return root


def write(checkout):
    subprocess.run([sys.executable, "pipelines/write_environment.py"], cwd=checkout, check=True)
    return (checkout / ENVIRONMENT).stat().st_mtime_ns


def test_the_stage_writes_only_what_has_changed(checkout):
    first = write(checkout)
    written = json.loads((checkout / ENVIRONMENT).read_text())
    assert written == fingerprint.fingerprint(package=checkout / "src/accelbench")
    assert write(checkout) == first
    change(checkout / "src/accelbench/isolation/sampler.py")
    assert write(checkout) != first
    assert json.loads((checkout / ENVIRONMENT).read_text())["code"] != written["code"]


def test_the_stage_mends_a_broken_file(checkout):
    (checkout / ENVIRONMENT).write_text("{")
    write(checkout)
    assert json.loads((checkout / ENVIRONMENT).read_text())["code"]


# The source of a user's own network.


@pytest.fixture
def folder(tmp_path, monkeypatch):
    fingerprint.source_digest.cache_clear()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def source_digest(target):
    fingerprint.source_digest.cache_clear()
    return fingerprint.source_digest("model.target", target)


def test_the_digest_changes_with_any_file_of_the_package_and_nothing_is_imported(folder):
    (folder / "mine").mkdir()
    (folder / "mine" / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / "mine" / "nets.py").write_text("a = 1")
    before = source_digest("mine.nets.Net")
    assert source_digest("mine.nets.Net") == before
    (folder / "mine" / "layers.py").write_text("b = 1")
    changed = source_digest("mine.nets.Net")
    assert changed != before
    (folder / "mine" / "layers.py").rename(folder / "mine" / "later.py")
    assert source_digest("mine.nets.Net") not in (before, changed)


def test_a_single_module_will_do(folder):
    (folder / "single_module.py").write_text("a = 1")
    before = source_digest("single_module.Net")
    (folder / "layers.py").write_text("b = 2")
    assert source_digest("single_module.Net") != before


def test_what_is_not_there_is_named(folder):
    with pytest.raises(UserError, match=r"model.target=nowhere.Net: no package or module nowhere in this folder"):
        source_digest("nowhere.Net")


def test_the_machine_has_what_its_gpus_drivers_tell(monkeypatch):
    fake = FakeNvml(("A100", "A30"), failing=["nvmlDeviceGetCudaComputeCapability"])
    monkeypatch.setattr(fingerprint.nvml, "visible_gpus", lambda: [nvml.describe(f"handle-{i}", fake) for i in (0, 1)])
    monkeypatch.setattr(fingerprint.pynvml, "nvmlSystemGetDriverVersion", fake.nvmlSystemGetDriverVersion)
    machine = fingerprint.fingerprint()["machine"]
    assert machine["gpus"] == ["A100", "A30"]
    assert [gpu["memory_gb"] for gpu in machine["gpu_details"]] == [40, 41]
    assert machine["gpu_details"][0] == {"memory_gb": 40, "multiprocessors": None, "compute_capability": None}


@pytest.mark.parametrize("engine", sorted(EXPORTING))
def test_a_change_of_the_code_that_an_exporting_engine_is_built_on_changes_its_numbers_identity(engine):
    paths = {path.relative_to(fingerprint.PACKAGE).as_posix() for path in fingerprint.measuring_code(engine)}
    assert {f"engines/{engine}/engine.py", "engines/exported/run.py", "engines/lightning/workload.py"} <= paths
    assert "engines/keras/engine.py" not in paths


def test_the_variables_of_terraform_are_none_of_tensorflow(monkeypatch):
    for name in ("TF_CLI_CONFIG_FILE", "TF_VAR_region", "TF_LOG", "TF_TOKEN_app_terraform_io"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    found = fingerprint.fingerprint()["variables"]
    assert [name for name in found if name.startswith("TF_")] == ["TF_ENABLE_ONEDNN_OPTS"]
