import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelbench.grid import fingerprint, own_code

REPO = Path(__file__).resolve().parents[2]


def test_it_is_plain_json_of_this_machine_and_of_what_computes():
    found = fingerprint.fingerprint()
    assert fingerprint.fingerprint() == found == json.loads(json.dumps(found))
    assert set(found) == {"machine", "versions", "variables", "code"}
    assert 1 <= found["machine"]["num_threads"] <= len(os.sched_getaffinity(0))
    assert found["machine"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert os.uname().nodename not in json.dumps(found["machine"])
    assert {"torch", "numpy", "pytorch-lightning"} <= set(found["versions"])
    assert not {"mlflow", "dvc", "hydra-core", "pandas", "accelbench"} & set(found["versions"])


def git(folder, *args):
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    shown = subprocess.run(["git", *identity, *args], cwd=folder, capture_output=True, text=True, check=True)
    return shown.stdout.strip()


def test_git_state(tmp_path, monkeypatch):
    assert fingerprint.git_state(tmp_path) == {}
    git(tmp_path, "init", "-q", "-b", "trunk")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "of a hook"))
    assert fingerprint.git_state(tmp_path) == {"revision": None, "branch": "trunk", "dirty": False}
    monkeypatch.delenv("GIT_DIR")
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


# The source of a user's own network.


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def source_digest(target):
    own_code.source_digest.cache_clear()
    return own_code.source_digest("model.target", target, Path.cwd())


def test_the_digest_changes_with_any_file_that_may_be_imported_and_nothing_is(folder):
    files = {
        "mine/__init__.py": "raise RuntimeError('imported')",
        "mine/nets.py": "import os, random\nfrom . import layers as all_layers\n    from helpers.deep import others",
        "mine/others.py": "import lone, \\\n  another",
        "helpers/deep.py": "import os.path as path, mine.nets",
        "lone.py": "",
        "others.py": "",
        "random.py": "",
    }
    for name in files:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(files[name])
    before = source_digest("mine.nets.Net")
    changing = set()
    for name in files:
        (folder / name).write_text(f"{files[name]}\na = 1")
        if source_digest("mine.nets.Net") != before:
            changing.add(name)
        (folder / name).write_text(files[name])
    assert source_digest("mine.nets.Net") == before
    assert changing == files.keys() - {"others.py", "random.py"}
