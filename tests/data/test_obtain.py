import pytest

from accelbench.data import obtain
from accelbench.data.obtain import source_files
from accelbench.errors import UnknownChoiceError


def test_every_set_can_be_obtained_and_has_its_conf_file(pytestconfig):
    assert "mnist" in obtain.names()
    for name in obtain.names():
        assert callable(obtain.find(name).obtain)
        assert obtain.find(name).home is None or not obtain.find(name).home.startswith("/")
        assert (pytestconfig.rootpath / "conf" / "data" / f"{name}.yaml").exists()
    with pytest.raises(UnknownChoiceError, match=r"data=minst: unknown data. Choose from: .*mnist"):
        obtain.find("minst")


def test_source_files_that_appear_or_change_show_and_nothing_else_does(tmp_path):
    empty = source_files(tmp_path, "mnist", "auto")
    raw = tmp_path / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    (raw / "images").write_bytes(b"1")
    one = source_files(tmp_path, "mnist", "auto")
    assert empty["files"] == {}
    assert one["files"]["images"][0] == 1
    assert source_files(tmp_path, "mnist", "auto") == one
    (raw / "images").write_bytes(b"12")
    assert source_files(tmp_path, "mnist", "auto") != one
    assert list(source_files(tmp_path, "mnist", str(raw.parent))["files"]) == ["raw/images"]
    assert list(source_files(tmp_path, "mnist", "data/MNIST/raw")["files"]) == ["images"]
    assert source_files(tmp_path, "mnist", "nowhere")["files"] == {}
