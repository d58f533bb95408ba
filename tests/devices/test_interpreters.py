import re
import sys
import tomllib

import pytest

from accelbench.devices.interpreters import PYTHONS, TORCH, look, other
from accelbench.errors import UserError
from fakes import TESTS, make_environment


def test_an_environment_has_its_own_versions_and_is_named_by_its_folder(tmp_path, monkeypatch):
    made = make_environment(tmp_path / "new/.venv", timm="99.0")
    (tmp_path / "clone/timm").mkdir(parents=True)
    (tmp_path / "clone/timm/__init__.py").touch()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "clone")])  # installed here to be edited
    monkeypatch.chdir(tmp_path)
    assert [other(word) for word in ("new/.venv", "new/.venv/bin/python")] == [str(made)] * 2
    assert [other(word) for word in (sys.prefix, sys.executable)] == [None, None]
    interpreter = look(str(made))
    assert (interpreter.version, interpreter.versions["timm"]) == (sys.version.split()[0], "99.0")
    assert interpreter.modules["timm"].startswith(str(made))
    assert {"numpy", "torch", "pynvml"} <= set(interpreter.modules)


def test_what_is_no_interpreter_is_a_mistake(tmp_path):
    (tmp_path / "elf").write_bytes(b"\x7fELF of another machine")
    (tmp_path / "elf").chmod(0o755)
    messages = {
        "/bin/echo": "not a Python interpreter (it does not run Python code)",
        "/bin/true": "not a Python interpreter (it does not run Python code)",
        str(tmp_path): "no interpreter in its bin/: name an interpreter, or the folder of its environment",
        str(tmp_path / "elf"): "not a Python interpreter (Exec format error)",
        str(tmp_path / "gone"): "no such file or folder: name an interpreter, or the folder of its environment",
    }
    for python, problem in messages.items():
        with pytest.raises(UserError, match=f"^{re.escape(f'python={python}: {problem}')}$"):
            look(python)


def test_the_releases_of_python_and_torch_are_those_of_the_project():
    project = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["project"]
    assert f"torch>={'.'.join(map(str, TORCH))}" in project["dependencies"]
    asked = project["requires-python"]
    least, below = (".".join(map(str, version)) for version in PYTHONS)
    assert asked == f">={least},<{below}"
