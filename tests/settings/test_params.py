import pytest
import yaml

from accelbench.errors import UserError
from accelbench.judging.costs import Cost
from accelbench.schema.vocab import Device
from accelbench.settings import params


def written(root, text):
    (root / "params.yaml").write_text(text)
    return root


def test_they_are_read_by_device(tmp_path):
    root = written(tmp_path, "costs: {gpu: {price_per_hour: 2.5, power_w: 350}, cpu: {power_w: 65}}")
    assert params.costs(root) == {
        Device.gpu: Cost(price_per_hour=2.5, power_w=350),
        Device.cpu: Cost(power_w=65),
    }
    assert params.costs(written(tmp_path, "profile: quick")) == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("costs: 3", "costs should map names"),
        ("costs: {abacus: {power_w: 3}}", "abacus.*Choose from: cpu, gpu"),
        ("costs: {cpu: {watts: 3}}", "costs.cpu=watts.*Choose from: price_per_hour, power_w"),
        ("costs: {cpu: {power_w: -3}}", "costs.cpu.power_w=-3: should be a number above 0"),
        (
            "costs: {cpu: {price_per_hour: 1e308}}",
            r"price_per_hour=1e\+308: should be a number above 0 and below 1e\+12",
        ),
        ("costs: {cpu: {power_w: .inf}}", "power_w=inf: should be a number above 0 and below"),
        ("costs: {cpu: {power_w: much}}", "power_w=much: should be a number above 0"),
    ],
)
def test_a_mistake_is_told_with_the_choices(tmp_path, text, told):
    with pytest.raises(UserError, match=told):
        params.costs(written(tmp_path, text))


@pytest.mark.parametrize("text", [f"a: {'9' * 5000}", "'1'", "'a: 1'", "1"])
def test_values_that_yaml_can_not_read_are_named(tmp_path, text):
    with pytest.raises(UserError, match=r"params.yaml: not readable \((Exceeds|one value)"):
        params.load(written(tmp_path, text))


@pytest.mark.parametrize("section", ["costs", "data", "suites"])
def test_a_section_of_another_kind_is_named(tmp_path, section):
    with pytest.raises(UserError, match=f"params.yaml: {section} should map names to settings"):
        params.load(written(tmp_path, f"{section}: true"))


def test_a_data_set_has_the_values_of_the_profile(tmp_path):
    text = "profile: {0}\ndata: {{pets: {{source: auto, max_images: {{quick: 400, full: 25000}}}}}}"
    for profile, num in (("quick", 400), ("full", 25000)):
        root = written(tmp_path, text.format(profile))
        assert params.data_settings(root, "pets") == {"source": "auto", "max_images": num}


def test_the_seconds_for_confirming_are_those_of_the_profile(tmp_path):
    text = "profile: full\nconfirm_s: {quick: 60, full: 3600}"
    assert params.confirm_s(written(tmp_path, text)) == 3600
    assert params.confirm_s(written(tmp_path, "confirm_s: 0")) == 0
    with pytest.raises(UserError, match="confirm_s=soon: should be a number of seconds, or 0"):
        params.confirm_s(written(tmp_path, "confirm_s: soon"))


BAD_NAMES = ["../../../x", "..", ".hidden", "a/b", "/tmp/x", "-x", "a b", "a\\b", "x\x1b[2J", "a;b", "a$(b)"]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize(("section", "what"), [("suites", "suite"), ("data", "data set")])
@pytest.mark.fault
def test_the_name_of_a_suite_or_a_data_set_is_that_of_a_folder(tmp_path, section, what, name):
    root = written(tmp_path, yaml.safe_dump({section: {name: {"source": "download"}}}))
    with pytest.raises(UserError, match=f"{section}.*: the name of a {what} is that of a folder") as told:
        params.load(root)
    assert str(told.value).isprintable()


@pytest.mark.parametrize("name", ["nets", "Nets_2", "nets-v1.5", "2026", "größen"])
def test_plain_names_of_suites_stay(tmp_path, name):
    assert params.load(written(tmp_path, yaml.safe_dump({"suites": {name: {"data": "mnist"}}})))
