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
    raw = tmp_path / "data" / "MNIST" / "raw"
    found = [source_files(tmp_path, "mnist", "auto")]
    raw.mkdir(parents=True)
    for content in (b"1", b"12"):
        (raw / "images").write_bytes(content)
        found.append(source_files(tmp_path, "mnist", "auto"))
    assert [each["num_files"] for each in found] == [0, 1, 1]
    assert len({each["digest"] for each in found}) == 3
    assert source_files(tmp_path, "mnist", "data/MNIST/raw")["digest"] == found[-1]["digest"]
    assert source_files(tmp_path, "mnist", "nowhere")["num_files"] == 0
