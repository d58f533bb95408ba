"""What params.yaml has, and the lines of its suites."""

import pytest
import yaml

from accelbench.errors import UserError
from accelbench.judging.costs import Cost
from accelbench.schema.cell import Device
from accelbench.schema.serialize import load
from accelbench.settings import params, suites
from accelbench.settings.params import Params

SETTINGS = {
    "profile": "quick",
    "profiles": {"quick": "budget_s=12 seed=1 batch_size=4", "full": "seed=2"},
    "suites": {
        "nets": {
            "data": "mnist",
            "always": "model=mlp,cnn batch_size=8",
            "quick": ["protocol=window", "model=cnn batch_size=16,32 'model.input_shape=[3, 32, 32]'"],
            "full": ["protocol=fit"],
        },
    },
}


def put(words, settings=SETTINGS):
    """The words of each line of a command line."""
    return suites.lines_in(list(map(suites.readable, words.split())), load(Params, settings))


def of_suite(words="suite=nets", **changes):
    return put(words, {**SETTINGS, "suites": {"nets": {**SETTINGS["suites"]["nets"], **changes}}})


def combinations(*words):
    return list(suites.jobs_of([suites.Line(words)]))


def told_by(function, *arguments, **named):
    with pytest.raises(UserError) as raised:
        function(*arguments, **named)
    return str(raised.value)


A_RANGE = "should be a list, or a range with a value, finite bounds and a step that is not 0"
FIRST = ["data=mnist", "profile=quick", "budget_s=12", "seed=1", "batch_size=8", "model=mlp,cnn", "protocol=window"]


def test_the_line_wins_over_always_always_over_the_profile_and_the_command_lines_profile_over_params():
    first, second = put("suite=nets")
    assert first == [*FIRST, "suite='nets'"]
    expected = {"batch_size=16,32", "model=cnn", "model.input_shape=[3, 32, 32]", "seed=1", "budget_s=12"}
    assert expected < set(second)
    assert not {"batch_size=8", "model=mlp,cnn"} & set(second)
    (added,) = put("suite=nets profile=full")
    assert {"protocol=fit", "seed=2", "profile=full"} < set(added)
    full = SETTINGS | {"profile": "full"}
    assert list(map(set, put("suite=nets", full))) == [set(added)]
    assert len(put("suite=nets profile=quick", full)) == 2


def test_the_override_wins_over_every_line_and_the_command_line_over_the_override():
    override = {"batch_size": [64, 128], "seed": None, "model": {"input_shape": [3, 8, 8], "args": {"bias": True}}}
    for words in of_suite(override=override):
        assert {"batch_size=64,128", "seed=1", "model.input_shape=[3,8,8]", "++model.args.bias=true"} < set(words)
    for words in of_suite("suite=nets batch_size=2", override=override):
        assert "batch_size=2" in words
        assert "batch_size=64,128" not in words


def test_what_is_wrong_on_the_command_line_is_named():
    assert told_by(put, "suite=nope").startswith("suite=nope: unknown suite. Choose from: nets.")
    told = "profile=full: chooses among the lines of a suite, but no suite is named: add -m suite=NAME."
    assert told_by(put, "profile=full").startswith(told)
    assert told_by(put, "batch_size=[1").startswith("batch_size=[1: ")
    assert told_by(put, "model.args={x:1}") == "model.args={x:1}: should be model.args.NAME=VALUE for each argument"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"data": ["mnist", "random"]}, "data: should be `str`, got `array`. A suite may have the keys data,"),
        ({"exclude": []}, ": Object contains unknown field `exclude`. A suite may have the keys data, title, study,"),
        ({"override": {"modle": "mlp"}}, "override: modle=mlp: unknown setting. Did you mean mode?"),
        ({"quick": []}, "quick: should be a list of lines"),
        ({"quick": ["seed=3", "batchsize=3"]}, "quick, line 2: batchsize=3: unknown setting. Did you mean batch_si"),
        ({"quick": ["out=runs/a"]}, "quick, line 1: out=runs/a: can't be set in a suite. Choose from: engine, device,"),
        ({"quick": ["data=random"]}, "quick, line 1: data=random: leave it out: the suite's `data` names the data set"),
        ({"quick": ["seed='3"]}, "quick, line 1: seed='3: not readable as words (No closing quotation)"),
    ],
)
def test_what_is_wrong_in_a_suite_is_named_with_its_line_and_word(changes, told):
    assert told_by(of_suite, **changes).startswith(f"params.yaml: suites.nets{'' if told[0] == ':' else '.'}{told}")


def test_combinations_are_those_of_hydra():
    ranges = {"0": 1, "[0,1]": 1, "range(0,10)": 10, "range(10,0,-3)": 4, "range(0,1,0.25)": 4}
    for value, num in {**ranges, "shuffle(range(0,10))": 10, "choice(1,2)": 2}.items():
        assert len(combinations(f"seed={value}")) == num
    expected = [["seed=0", "model=mlp"], ["seed=0", "model=cnn"], ["seed=1", "model=mlp"], ["seed=1", "model=cnn"]]
    assert combinations("seed=0,1", "model=mlp,cnn") == expected
    assert combinations("seed=0,1,2", "seed=0,1") == [["seed=0"], ["seed=1"]]  # the last one wins
    assert len(combinations("seed=range(0,100)", "batch_size=range(1,101)")) == suites.MAX_CELLS


def test_too_many_combinations_are_named_at_once():
    many = ["seed=range(0,101)", "epochs=range(1,101)"]
    assert told_by(combinations, *many).startswith(f"{' '.join(many)}: makes more than 10,000 cells")
    assert told_by(combinations, "seed=range(0,1e400)").startswith("seed=range(0,1e400): makes more than 10,000 cells")
    for value in ("range(0,5,0)", "range(5,5)", "interval(0,5)"):
        assert told_by(combinations, f"seed={value}").startswith(f"seed={value}: {A_RANGE}")


def test_costs_are_read_by_device(tmp_path):
    found = loaded(tmp_path, "costs: {gpu: {price_per_hour: 2.5, power_w: 350}, cpu: {power_w: 65}}").costs
    assert found == {Device.gpu: Cost(price_per_hour=2.5, power_w=350), Device.cpu: Cost(power_w=65)}


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
        ("profiles: {fast: seed=3}", "profiles: Invalid enum value 'fast'"),
        ("costs: {cpu: {power_w: -3}}", "costs[...].power_w: should be `float` >= "),
    ],
)
def test_what_is_no_params_file_is_named_in_one_line(tmp_path, text, told):
    with pytest.raises(UserError, match=r"^params\.yaml: ") as raised:
        loaded(tmp_path, text)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["../../../x", "..", ".hidden", "/tmp/x", "a b", "a\\b", "x\x1b[2J"])
@pytest.mark.fault
def test_the_name_of_a_suite_or_a_data_set_is_that_of_a_folder(tmp_path, name):
    for section in ("suites", "data"):
        with pytest.raises(UserError, match="a folder gets this name: use only letters") as told:
            loaded(tmp_path, yaml.safe_dump({section: {name: {"source": "download"}}}))
        assert str(told.value).isprintable()
