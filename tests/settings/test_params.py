import pytest
import yaml

from accelbench.errors import UserError
from accelbench.judging.costs import Cost
from accelbench.schema.cell import Device
from accelbench.settings import params


def loaded(root, text):
    (root / "params.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return params.load(root)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        *(("suites: [", "not readable"), (b"\xff\xfe\x00\x01", "not readable")),
        ("suites: {a: {}, b: {}, a: {}}", "not readable (while constructing a mapping"),
        ("- a\n- b", "should be `object`, got `array`"),
        ("profil: quick", "Object contains unknown field `profil`"),
        ("suites: {text: mnist}", "suites[...]: should be `object`, got `str`"),
        ("profiles: {fast: seed=3}", "profiles: Invalid enum value 'fast'"),
        ("costs: {cpu: {power_w: -3}}", "costs[...].power_w: should be `float` >= "),
    ],
)
def test_what_is_no_params_file_is_named_in_one_line(tmp_path, text, told):
    with pytest.raises(UserError, match=r"^params\.yaml: ") as raised:
        loaded(tmp_path, text)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_costs_are_read_by_device(tmp_path):
    found = loaded(tmp_path, "costs: {gpu: {price_per_hour: 2.5, power_w: 350}, cpu: {power_w: 65}}").costs
    assert found == {Device.gpu: Cost(price_per_hour=2.5, power_w=350), Device.cpu: Cost(power_w=65)}


@pytest.mark.parametrize("name", ["../../../x", "..", ".hidden", "/tmp/x", "a b", "a\\b", "x\x1b[2J"])
@pytest.mark.fault
def test_the_name_of_a_suite_or_a_data_set_is_that_of_a_folder(tmp_path, name):
    for section in ("suites", "data"):
        with pytest.raises(UserError, match="a folder gets this name: use only letters") as told:
            loaded(tmp_path, yaml.safe_dump({section: {name: {"source": "download"}}}))
        assert str(told.value).isprintable()
