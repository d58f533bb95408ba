import importlib.util
import sys

import pytest

from accelbench.isolation import child

SOURCE = """import json


def outer(text):
    return inner(text)


def inner(text):
    return json.loads(text)
"""


@pytest.fixture
def nets(tmp_path, monkeypatch):
    """A module of the user's in the current folder."""
    (tmp_path / "nets.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("nets", tmp_path / "nets.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def error_of(function, *args):
    with pytest.raises(Exception) as raised:  # noqa: PT011
        function(*args)
    error = raised.value
    error.__traceback__ = error.__traceback__.tb_next  # without this file, which is a user's too
    return error


def test_the_innermost_call_in_the_users_own_files_is_named(nets):
    error = error_of(nets.outer, "{")
    assert child.place_of(error) == "nets.py:9"
    text = child.described(error)
    assert [line for line in text.splitlines() if "File" in line] == [
        '  File "nets.py", line 5, in outer',
        '  File "nets.py", line 9, in inner',
    ]
    assert "return json.loads(text)" in text
    assert text.splitlines()[-1].startswith("json.decoder.JSONDecodeError")


def test_an_error_without_the_users_code_keeps_its_whole_traceback():
    import json

    error = error_of(json.loads, "{")
    assert child.place_of(error) is None
    assert "json/decoder.py" in child.described(error)


@pytest.mark.parametrize("name", ["json", "pytest", "accelbench.errors"])
def test_libraries_are_not_the_users(name):
    path = importlib.util.find_spec(name).origin
    assert not child.is_the_users(path)
    assert child.is_the_users("/home/me/nets.py")
    assert not child.is_the_users("<string>")
    assert sys.prefix
