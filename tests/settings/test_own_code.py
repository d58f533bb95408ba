import pytest

from accelbench.errors import UserError
from accelbench.settings.own_code import check_model
from settings.composed import merged


def checked(*settings):
    found = merged(
        "model.name=bert", "model.library=transformers", "model.task=masked_lm", "data.name=random", *settings
    )
    check_model(found)
    return found


def test_a_network_of_transformers_has_sequences_of_128_tokens_by_default():
    assert checked().model.batch_args == {"seq_len": 128}
    assert checked("model.batch_args.seq_len=64").model.batch_args == {"seq_len": 64}


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
