import pytest

from accelbench.devices import packages
from accelbench.errors import UserError
from accelbench.settings.own_code import checked_model
from settings.composed import merged


def checked(*settings):
    found = merged(
        "model.name=bert", "model.library=transformers", "model.task=masked_lm", "data.name=random", *settings
    )
    return checked_model(found)


def test_a_network_of_transformers_has_sequences_of_128_tokens_by_default():
    assert checked().batch_args == {"seq_len": 128}
    assert checked("model.batch_args.seq_len=64").batch_args == {"seq_len": 64}


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        (
            "model.batch_args.length=3",
            "model.batch_args.length: transformers' batches have model.batch_args.seq_len al",
        ),
        ("model.batch_args.seq_len=0", "model.batch_args.seq_len=0: should be a whole number from 1 to"),
        ("model.batch_args.seq_len=long", "model.batch_args.seq_len=long: should be a whole number from 1 to"),
        ("data.name=mnist", "data=mnist: networks of transformers run on random token ids: use data=random"),
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


@pytest.mark.parametrize("version", ["2.15.0", "2.10.0", "2.10.0+cu126"])
@pytest.mark.parametrize("name", ["mine.pth", "mine.pt", "mine.ckpt", "mine.bin"])
def test_a_file_of_torch_load_is_taken_where_torch_reads_it_safely(name, version, tmp_path, monkeypatch):
    monkeypatch.setattr(packages, "version", {"torch": version}.get)
    with pytest.raises(UserError, match=f"^model.weights={tmp_path / name}: there is no such file$"):
        checked(f"model.weights={tmp_path / name}")
    (tmp_path / name).write_bytes(b"")
    assert checked(f"model.weights={tmp_path / name}").weights == str(tmp_path / name)


@pytest.mark.parametrize("version", ["2.9.1", "2.9.0+cu128", "2.10.0a0+git1f2", None])
@pytest.mark.parametrize("name", ["mine.pth", "mine.pt", "mine.ckpt", "mine.bin"])
def test_an_older_torch_refuses_it_with_the_lines_that_convert_it(name, version, monkeypatch):
    monkeypatch.setattr(packages, "version", {"torch": version}.get)
    needed = f"^model.weights=some/{name}: torch 2.10 or newer is needed to read it, and here is {version or 'none'}"
    with pytest.raises(UserError, match=needed.replace("+", r"\+")) as told:
        checked(f"model.weights=some/{name}")
    assert str(told.value).endswith(
        "\n  from safetensors.torch import save_file"
        f"\n  save_file(torch.load('{name}', weights_only=True), 'mine.safetensors')"
    )


def test_weights_are_saved_after_whole_epochs_of_training():
    checked("save_weights=true", "mode=train", "protocol=fit")
    for other in ("mode=infer", "protocol=window"):
        with pytest.raises(UserError, match="^save_weights=true: saves what whole epochs have trained"):
            checked("save_weights=true", "mode=train", "protocol=fit", other)
