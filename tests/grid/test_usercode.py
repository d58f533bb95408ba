import pytest

from accelbench.errors import UserError
from accelbench.grid import usercode


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    usercode.source_digest.cache_clear()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def digest(target):
    usercode.source_digest.cache_clear()
    return usercode.source_digest(target)


def test_the_digest_changes_with_any_file_of_the_package_and_nothing_is_imported(folder):
    (folder / "mine").mkdir()
    (folder / "mine" / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / "mine" / "nets.py").write_text("a = 1")
    before = digest("mine.nets.Net")
    assert digest("mine.nets.Net") == before
    (folder / "mine" / "layers.py").write_text("b = 1")
    changed = digest("mine.nets.Net")
    assert changed != before
    (folder / "mine" / "layers.py").rename(folder / "mine" / "later.py")
    assert digest("mine.nets.Net") not in (before, changed)


def test_a_single_module_will_do(folder):
    (folder / "single_module.py").write_text("a = 1")
    before = digest("single_module.Net")
    (folder / "layers.py").write_text("b = 2")
    assert digest("single_module.Net") != before


def test_what_is_not_there_is_named():
    with pytest.raises(UserError, match=r"model.target=nowhere.Net: no package or module nowhere in this folder"):
        digest("nowhere.Net")
