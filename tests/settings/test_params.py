import pytest
import yaml

from accelbench.errors import UserError
from accelbench.judging.costs import Cost
from accelbench.schema.vocab import Device
from accelbench.settings import params


def written(root, text):
    (root / "params.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


@pytest.mark.parametrize(
    ("text", "told"),
    [
        *(("suites: [", "not readable"), ("suites:\n\t- x", "not readable"), (b"\xff\xfe\x00\x01", "not readable")),
        (f"a: {'9' * 5000}", "not readable (Exceeds"),
        ("- a\n- b", "should be a mapping with profile, data and suites"),
        ("profil: quick", "unknown profil. Did you mean profile? Choose from: profile, profiles, retry, strict,"),
        *((f"{section}: true", f"{section} should map names to settings") for section in ("costs", "data", "suites")),
        ("suites: {text: mnist}", "suites.text: should map settings to values"),
        ("profiles: {fast: seed=3}", "profiles: should map quick and full to settings, such as budget_s=12"),
    ],
)
def test_what_is_no_params_file_is_named_in_one_line(tmp_path, text, told):
    with pytest.raises(UserError, match=r"^params\.yaml: ") as raised:
        params.load(written(tmp_path, text))
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_costs_are_read_by_device(tmp_path):
    root = written(tmp_path, "costs: {gpu: {price_per_hour: 2.5, power_w: 350}, cpu: {power_w: 65}}")
    assert params.costs(root) == {Device.gpu: Cost(price_per_hour=2.5, power_w=350), Device.cpu: Cost(power_w=65)}
    assert params.costs(written(tmp_path, "profile: quick")) == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "costs: {abacus: {power_w: 3}}",
            "costs: Invalid enum value 'abacus'. Each of cpu, gpu, tpu, xpu, mps, xla_cpu may have",
        ),
        (
            "costs: {cpu: {watts: 3}}",
            "costs.cpu: unknown field 'watts'. Each of cpu, gpu, tpu, xpu, mps, xla_cpu may have price_per_hour",
        ),
        *(
            (f"costs: {{cpu: {{power_w: {word}}}}}", "costs.cpu.power_w: should be `float")
            for word in ("-3", "0", "1e308", ".inf", "much", "true")
        ),
    ],
)
def test_a_mistake_in_costs_is_told_with_the_choices(tmp_path, text, told):
    with pytest.raises(UserError, match=f"^params.yaml: {told}"):
        params.costs(written(tmp_path, text))


@pytest.mark.parametrize(
    "name", ["../../../x", "..", ".hidden", "a/b", "/tmp/x", "-x", "a b", "a\\b", "x\x1b[2J", "a$(b)"]
)
@pytest.mark.fault
def test_the_name_of_a_suite_or_a_data_set_is_that_of_a_folder(tmp_path, name):
    for section, what in (("suites", "suite"), ("data", "data set")):
        root = written(tmp_path, yaml.safe_dump({section: {name: {"source": "download"}}}))
        with pytest.raises(UserError, match=f"{section}.*: the name of a {what} is that of a folder") as told:
            params.load(root)
        assert str(told.value).isprintable()
