import json
import os
import subprocess
import sys
from pathlib import Path

from accelbench.grid import fingerprint, own_code


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
    def git(*args):
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        return subprocess.check_output(["git", *identity, *args], cwd=tmp_path, text=True, stderr=subprocess.STDOUT)

    def state():
        return fingerprint.git_state(tmp_path)

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
    assert not state()["dirty"]
    git("add", "dvc.lock")
    assert not state()["dirty"]
    (tmp_path / "a").write_text("2")
    assert state()["dirty"]
    git("checkout", "-q", "--detach")
    assert state()["branch"] is None


def source_digest(target):
    own_code.source_digest.cache_clear()
    return own_code.source_digest("model.target", target, Path.cwd())


def test_the_digest_changes_with_any_file_that_may_be_imported_and_nothing_is(here):
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
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(files[name])
    before = source_digest("mine.nets.Net")
    changing = set()
    for name in files:
        (here / name).write_text(f"{files[name]}\na = 1")
        if source_digest("mine.nets.Net") != before:
            changing.add(name)
        (here / name).write_text(files[name])
    assert source_digest("mine.nets.Net") == before
    assert changing == files.keys() - {"others.py", "random.py"}
