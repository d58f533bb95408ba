import pytest
from omegaconf import OmegaConf

from accelbench.errors import UserError
from accelbench.schema.vocab import Device
from accelbench.settings import suites

SETTINGS = {
    "profile": "quick",
    "suites": {
        "nets": {
            "data": "mnist",
            "model": ["mlp", "cnn"],
            "batch_size": {"quick": [8, 16], "full": [32]},
            "protocol": {"quick": "window", "full": "fit"},
            "threads": [None, 1],
            "model.args.dropout": 0.5,
        },
        "bare": {"data": "random"},
    },
}


def put(words, settings=SETTINGS):
    """What the suite of a command line adds to it."""
    given = suites.given_in(word for word in words.split() if word != "-m")
    suite = suites.Suite.chosen(given, settings)
    return suite.overrides(given, "-m" in words.split()) if suite else []


def test_a_sweep_gets_all_values_of_the_profile_in_force_and_a_run_the_first():
    values = ["data=mnist", "model=mlp,cnn", "batch_size=8,16", "protocol=window", "threads=null,1"]
    assert put("-m suite=nets") == [*values, "model.args.dropout=0.5", "profile=quick"]
    assert put("suite=nets")[:5] == [value.partition(",")[0] for value in values]
    assert "model.args.x=true,false,null,1.5" in suites.Suite(
        "nets", {"data": "mnist", "model.args.x": [True, False, None, 1.5]}, "quick"
    ).overrides({}, True)


@pytest.mark.parametrize("name", ["2024", "1.5", "2024-01"])
def test_a_suite_may_have_a_number_for_a_name(name):
    settings = {**SETTINGS, "suites": {name: {"data": "mnist"}}}
    assert put(f"suite={name}", settings) == put(f"suite='{name}'", settings) == ["data=mnist", "profile=quick"]


def test_the_command_lines_profile_wins_over_params():
    added = put("-m suite=nets profile=full")
    assert {"batch_size=32", "protocol=fit"} < set(added)
    full = SETTINGS | {"profile": "full"}
    assert put("-m suite=nets", full) == [*added, "profile=full"]
    assert "batch_size=8,16" in put("-m suite=nets profile=quick", full)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("suite=nope", "suite=nope: unknown suite. Choose from: nets, bare."),
        ("suite=", "suite=: unknown suite. Choose from: nets, bare."),
        ("-m suite=nets,bare", "suite=nets,bare: unknown suite. Choose from: nets, bare."),
        ("profile=full", "profile=full: chooses among the values of a suite, and none is named: add -m suite=NAME."),
        ("profile=fast", "profile=fast: unknown profile. Choose from: quick, full."),
        ("-m profile=quick,full", "profile=quick,full: unknown profile. Did you mean quick? Choose"),
        ("batch_size=[1", "batch_size=[1: "),
        ("=3", "=3: "),
        ("+batch_size=3", "+batch_size=3: "),
        ("++modle=mlp", "++modle=mlp: "),
    ],
)
def test_what_is_wrong_on_the_command_line_is_named(words, told):
    with pytest.raises(UserError) as raised:
        put(words)
    assert str(raised.value).startswith(told)


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({}, "suites.nets.data: missing"),
        ({"data": ["mnist", "random"]}, "suites.nets.data: should name exactly one data set"),
        ({"data": {"quick": "mnist"}}, "suites.nets.data: should have a value for each of quick, full"),
        ({"data": "mnist", "modle": "mlp"}, "suites.nets.modle: unknown setting. Did you mean model? Choose"),
        (
            {"data": "mnist", "input_shape": [3, 32]},
            "suites.nets.input_shape: unknown setting. Did you mean model.input_",
        ),
        ({"data": "mnist", "retry": "failed"}, "suites.nets.retry: unknown setting"),
        ({"data": "mnist", "batch_size": []}, "suites.nets.batch_size: should be a value, a list of values, or"),
        ({"data": "mnist", "model.input_shape": [[3, 32]]}, 'quote a value that is a list itself: "[3,32,32]"'),
        ({"data": "mnist", "batch_size": {"quick": 1, "full": 1, "slow": 1}}, "and no other key"),
    ],
)
def test_what_is_wrong_in_a_suite_is_named(section, told):
    with pytest.raises(UserError) as raised:
        suites.Suite("nets", section, "quick").overrides({}, True)
    assert str(raised.value).startswith("params.yaml: ")
    assert told in str(raised.value)


GRID = {"data": "mnist", "model": ["cnn", "lstm"], "device": ["cpu", "xla_cpu"], "batch_size": [8, 16]}
RULE = {"model": "lstm", "device": ["xla_cpu"]}


def left_out(words, rule=RULE, **config):
    settings = {"suites": {"nets": {**GRID, "exclude": {"quick": [rule], "full": []}}}}
    composed = {"model": {"name": "lstm"}, "device": {"name": Device.xla_cpu}, "batch_size": 8, **config}
    given = suites.given_in(words.split())
    suite = suites.Suite.chosen(given, settings)
    return suites.is_excluded(OmegaConf.create(composed), suite.rules(given) if suite else [])


def test_a_rule_leaves_out_the_cells_that_it_matches_whole():
    assert left_out("suite=nets")
    assert not left_out("suite=nets", model={"name": "cnn"})
    assert not left_out("suite=nets", device={"name": Device.cpu})
    assert left_out("suite=nets", rule={"batch_size": [8]})
    assert not left_out("suite=nets", rule={"batch_size": 16})
    assert left_out("suite=nets", rule={"batch_size": 8.0})
    assert not left_out("suite=nets profile=full")


def test_what_the_command_line_names_is_never_left_out_and_an_axis_may_be_narrowed():
    assert not left_out("suite=nets model=lstm")
    assert left_out("suite=nets batch_size=8")
    assert not left_out("model=lstm")
    narrowed = suites.Suite("nets", {**GRID, "model": "cnn", "exclude": [RULE]}, "quick")  # as `dvc exp run -S` does
    assert narrowed.rules({}) == [{"model": ["lstm"], "device": ["xla_cpu"]}]


@pytest.mark.parametrize(
    ("excluded", "told"),
    [
        ("lstm", "should be a list of combinations, such as {model: lstm, device: xla_cpu}"),
        ([{}], "should be a list of combinations"),
        ([{"modle": "lstm"}], "modle is none of the suite's settings"),
        ({"quick": []}, "should have a list for each of quick, full"),
    ],
)
def test_a_rule_that_is_none_is_named(excluded, told):
    with pytest.raises(UserError, match=r"^params\.yaml: suites\.nets\.exclude: ") as raised:
        suites.Suite("nets", {**GRID, "exclude": excluded}, "quick").rules({})
    assert told in str(raised.value)


def combinations(*words):
    return suites.check_combinations(map(suites.parse, words))


def test_combinations_are_counted_as_hydra_makes_them():
    ranges = {"0": 1, "[0,1]": 1, "range(0,10)": 10, "range(10,0,-3)": 4, "range(0,1,0.25)": 4, "glob(*)": 1}
    for value, num in {**ranges, "shuffle(range(0,10))": 10, "choice(1,2)": 2}.items():
        assert combinations(f"seed={value}") == num
    assert combinations("seed=0,1,2", "model=mlp,cnn", "mode=infer") == 6
    assert combinations("seed=0,1,2", "seed=0,1") == 2  # the last one wins
    assert combinations("seed=range(0,100)", "batch_size=range(1,101)") == suites.MAX_CELLS


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["seed=range(0,101)", "batch_size=range(1,101)"], "seed (101) x batch_size (100): 10,100 combinations; "),
        (["seed=range(0,1e400)"], "seed=range(0,1e400): a range needs finite bounds, and a step other than 0"),
        (["seed=range(0,5,0)"], "seed=range(0,5,0): a range needs finite bounds, and a step other than 0"),
        (["seed=range(5,5)"], "seed: a range without a value"),
    ],
)
def test_too_many_combinations_are_named_at_once(words, told):
    with pytest.raises(UserError) as raised:
        combinations(*words)
    assert str(raised.value).startswith(told)
