import pytest

from accelbench.data import registry
from accelbench.errors import UnknownChoiceError


def test_every_module_of_sets_can_obtain():
    assert "mnist" in registry.names()
    for name in registry.names():
        assert callable(registry.find(name).obtain)
        assert registry.find(name).home is None or not registry.find(name).home.startswith("/")


def test_every_set_has_its_conf_file(pytestconfig):
    assert {path.stem for path in (pytestconfig.rootpath / "conf" / "data").glob("*.yaml")} >= set(registry.names())


def test_an_unknown_set_lists_the_choices():
    with pytest.raises(UnknownChoiceError, match=r"data=minst: unknown data. Choose from: .*mnist"):
        registry.find("minst")
