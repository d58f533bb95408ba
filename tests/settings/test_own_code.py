from dataclasses import replace

import pytest

from accelbench.errors import UserError
from accelbench.settings.compose import cells_of
from accelbench.settings.config import DataConfig
from accelbench.settings.to_cell import cell_and_options
from settings.composed import merged


def checked(*settings):
    bert = ("model.name=bert", "model.library=transformers", "model.task=masked_lm")
    return cell_and_options(merged(*bert, "data.name=random", "data.pipeline=host", *settings))[0].model


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("model.batch_args.length=3", "model.batch_args.length: transformers' batches have only model.batch_args.s"),
        ("model.batch_args.seq_len=long", "model.batch_args.seq_len=long: should be a whole number from 1 to"),
        ("model.task=null", "model.task: it is missing. Choose from: classification, masked_lm, causal_lm."),
        ("model.weights=pretrained", "model.weights=pretrained: unknown model.weights. Choose from: none, a file"),
    ],
)
def test_a_setting_that_transformers_lacks_is_refused(setting, told):
    with pytest.raises(UserError, match=f"^{told}"):
        checked(setting)


def test_the_path_of_weights_is_relative_to_where_the_user_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"^model.weights=mine.safetensors: there is no such file$"):
        checked("model.weights=mine.safetensors")
    (tmp_path / "mine.safetensors").write_bytes(b"")
    assert checked("model.weights=mine.safetensors").weights == str(tmp_path / "mine.safetensors")


def test_a_file_of_torch_load_is_refused_with_where_to_read_how_to_convert_it():
    with pytest.raises(UserError, match="^model.weights=some/mine.bin: only safetensors .*your-own-network.md shows$"):
        checked("model.weights=some/mine.bin")


def named(name, path, image_size=None):
    settings = {"path": path, "image_size": image_size}
    words = tuple(f"data.{key}={value}" for key, value in settings.items() if value is not None)
    (cell,), _ = cells_of([replace(merged(), data=DataConfig(name=name, **settings), words=words)])
    return cell.data


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
        (("folder", None, 64), "data.path: it is missing. data=folder needs the path of a folder that has"),
        (("folder", "nowhere", 64), "data.path=nowhere: there is no such folder"),
        (("folder", "one", 0), "data.image_size=0: should be a whole number from 1 to 4096"),
        (("arrays", "my images.npz", 8), "data.image_size=8: has no effect: it needs data=folder"),
        (("mnist", "one"), "data.path=one: has no effect: it needs data=folder,arrays"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_setting(here, given, told):
    with pytest.raises(UserError, match=f"^{told}"):
        named(*given)
