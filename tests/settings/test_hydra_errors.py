import pytest
from hydra.errors import ConfigCompositionException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from accelbench.errors import BusyError, UserError
from accelbench.settings.compose import structure
from accelbench.settings.hydra_errors import user_error_behind


def told(error):
    """The complaint about `error`, which is always one line."""
    mended = user_error_behind(error)
    assert isinstance(mended, UserError)
    assert "\n" not in str(mended)
    return str(mended)


def raised_by(change):
    """What OmegaConf raises at a change of the schema."""
    with pytest.raises(OmegaConfBaseException) as raised:
        OmegaConf.merge(structure(), change)
    return raised.value


def caused_by(error):
    """A Hydra error around `error`, as its own code raises them."""
    try:
        raise ConfigCompositionException("Error merging override x") from error
    except ConfigCompositionException as outer:
        return outer


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"mode": "fit"}, "mode=fit: unknown mode. Choose from: train, infer."),
        ({"batch_size": "many"}, "batch_size=many: should be a whole number"),
        ({"window": {"measure_s": "long"}}, "window.measure_s=long: should be a number"),
        ({"batchsize": 3}, "batchsize: unknown setting. `accelbench --cfg job` prints all settings."),
        ({"measure_s": 3}, "measure_s: unknown setting. Choose from: window.measure_s."),
    ],
)
def test_a_libraries_complaint_in_a_users_words(change, expected):
    error = raised_by(change)
    assert told(error) == told(caused_by(error)) == expected


def test_our_own_complaint_is_found_inside_a_librarys():
    inner = BusyError("another measurement is under way")
    assert user_error_behind(inner) is inner
    assert user_error_behind(caused_by(inner)) is inner
