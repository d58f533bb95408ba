from dataclasses import replace

import pytest

from accelbench.errors import UserError
from accelbench.settings.config import DataConfig
from accelbench.settings.own_code import checked_data
from settings.composed import merged


def named(name, path, image_size=None):
    return checked_data(replace(merged(), data=DataConfig(name=name, path=path, image_size=image_size)))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("one/pets", "two/pets"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "my images.npz").write_bytes(b"")
    return tmp_path


def test_data_are_named_after_where_they_are(here):
    one, two, small = (named("folder", *given) for given in (("one/pets", 64), ("two/pets", 64), ("one/pets", 32)))
    assert one.path == str(here / "one" / "pets")
    assert one.args == {"image_size": 64}
    assert len({one.name, two.name, small.name}) == 3
    assert all(each.name.startswith("pets-") for each in (one, two, small))
    assert named("folder", str(here / "one" / "pets" / ".." / "pets"), 64).name == one.name
    assert named("arrays", "my images.npz").name.startswith("my_images-")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("folder", None, 64), "data.path: it is missing: data=folder needs the path of a folder with"),
        (("folder", "nowhere", 64), "data.path=nowhere: there is no such folder"),
        (("folder", "my images.npz", 64), "data.path=my images.npz: there is no such folder"),
        (("folder", "one", 0), "data.image_size=0: should be a whole number from 1 to 4096"),
        (("arrays", "one"), "data.path=one: there is no such file"),
        (("arrays", "my images.npz", 8), "data.image_size=8: goes with data=folder, not arrays"),
        (("mnist", "one"), "data.path=one: goes with data=folder or data=arrays, not mnist"),
        (("mnist", None, 8), "data.image_size=8: goes with data=folder, not mnist"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_setting(here, given, told):
    with pytest.raises(UserError, match=f"^{told}"):
        named(*given)
