"""What a cell's identity has: this machine, versions and the package's code."""

import json
import os
import shutil
import sys
from functools import partial
from pathlib import Path

import checkouts
from accelbench.grid import fingerprint
from accelbench.grid.fingerprint import code_digest
from accelbench.project import PACKAGE
from accelbench.schema.cell import Engine
from fakes import write_files


def test_it_is_plain_json_of_this_machine_and_of_what_computes():
    found = fingerprint.fingerprint()
    assert fingerprint.fingerprint() == found == json.loads(json.dumps(found))
    assert set(found) == {"machine", "versions", "variables", "code"}
    assert 1 <= found["machine"]["num_threads"] <= len(os.sched_getaffinity(0))
    assert found["machine"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert os.uname().nodename not in json.dumps(found["machine"])
    assert {"torch", "numpy", "pytorch-lightning"} <= set(found["versions"])
    assert not {"mlflow", "dvc", "hydra-core", "pandas", "accelbench"} & set(found["versions"])


def test_git_state(tmp_path, monkeypatch):
    git, state = partial(checkouts.git, tmp_path), partial(fingerprint.git_state, tmp_path)
    assert state() == {}
    git("init", "-q", "-b", "trunk")
    with monkeypatch.context() as patched:
        patched.setenv("GIT_DIR", str(tmp_path / "of a hook"))
        assert state() == {"revision": None, "branch": "trunk", "dirty": False}
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-q", "-m", "first")
    assert state() == {"revision": git("rev-parse", "HEAD").strip(), "branch": "trunk", "dirty": False}
    (tmp_path / "dvc.lock").write_text("what DVC wrote")
    git("add", "dvc.lock")
    assert not state()["dirty"]
    (tmp_path / "a").write_text("2")
    git("checkout", "-q", "--detach")
    assert (state()["dirty"], state()["branch"]) == (True, None)


ENGINES = (Engine.pytorch, Engine.keras, Engine.openvino)


def digests(package):
    return {engine: code_digest(package, engine) for engine in ENGINES}


def test_new_code_measures_the_cells_again_that_it_can_concern(tmp_path):
    package = Path(shutil.copytree(PACKAGE, tmp_path / "accelbench", ignore=shutil.ignore_patterns("__pyc*")))
    before = digests(package)
    assert before == digests(PACKAGE)  # the digest of a copy is the same
    for name, engines in {
        **dict.fromkeys(("measuring/new.py", "isolation/new.py", "devices/new.py", "engines/new.py"), set(ENGINES)),
        "engines/pytorch/deep/new.py": {Engine.pytorch, Engine.openvino},
        "engines/keras/new.py": {Engine.keras},
        **dict.fromkeys(("engines/other/new.py", "sweep/new.py", "report/new.py"), set()),
    }.items():
        write_files(package, {name: "NEW = 1\n"})
        after = digests(package)
        (package / name).unlink()
        assert {engine for engine in ENGINES if after[engine] != before[engine]} == engines, name
