import pytest
from omegaconf import OmegaConf

from accelbench.errors import UnknownChoiceError, UserError
from accelbench.schema.vocab import Device
from accelbench.settings import params, suites
from accelbench.settings.suites import (
    add_suite_axes,
    axis_overrides,
    exclude_rules,
    exclude_rules_in_force,
    is_excluded,
    with_arguments_added,
)

SETTINGS = OmegaConf.create(
    {
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
            "text": "mnist",
        },
    }
)


def put(words, settings=SETTINGS):
    """What is put into the command line `words` for its suite."""
    words = words.split()
    result = add_suite_axes(words, settings)
    assert result[: len(words)] == words
    return result[len(words) :]


def test_without_a_suite_nothing_is_added():
    assert put("model=cnn") == []
    assert put("-m model=cnn,mlp suite=adhoc") == []
    assert put("model=cnn", OmegaConf.create({})) == []


def test_a_sweep_gets_all_values_of_the_profile_in_force():
    assert put("-m suite=nets") == [
        "data=mnist",
        "model=mlp,cnn",
        "batch_size=8,16",
        "protocol=window",
        "threads=null,1",
        "model.args.dropout=0.5",
        "profile=quick",
    ]
    assert put("--multirun suite=nets") == put("-m suite=nets")


def test_a_single_run_gets_the_first_value_of_each_axis():
    assert put("suite=nets")[:5] == ["data=mnist", "model=mlp", "batch_size=8", "protocol=window", "threads=null"]


def test_the_command_lines_profile_wins_over_params():
    added = put("-m suite=nets profile=full")
    assert "batch_size=32" in added
    assert "protocol=fit" in added
    assert not [word for word in added if word.startswith("profile")]
    full = OmegaConf.merge(SETTINGS, {"profile": "full"})
    assert [*put("-m suite=nets", full)[:-1]] == added
    assert put("-m suite=nets", full)[-1] == "profile=full"
    assert "batch_size=8,16" in put("-m suite=nets profile=quick", full)


def test_quick_is_the_profile_where_nobody_says():
    assert suites.chosen_profile(None, None) == "quick"


def test_the_command_lines_values_win():
    added = put("-m suite=nets model=rnn batch_size=1,2")
    assert not [word for word in added if word.startswith(("model=", "batch_size="))]
    assert "data=mnist" in added


def test_words_are_such_as_hydra_reads():
    section = {"data": "mnist", "a.b": [True, False, None, 1.5]}
    with pytest.raises(UserError, match="a.b: unknown setting"):
        axis_overrides("nets", section, "quick", (), True)
    section = {"data": "mnist", "model.args.x": [True, False, None, 1.5]}
    assert axis_overrides("nets", section, "quick", (), True) == ["data=mnist", "model.args.x=true,false,null,1.5"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("suite=nope", "suite=nope: unknown suite. Choose from: nets, bare, text."),
        ("suite=", "suite=: unknown suite. Choose from: nets, bare, text."),
        ("-m suite=nets,bare", "suite=nets,bare: unknown suite. Choose from: nets, bare, text."),
        ("profile=fast", "profile=fast: unknown profile. Choose from: quick, full."),
        ("-m profile=quick,full", "profile=quick,full: unknown profile. Choose from: quick, full."),
        ("suite=text", "params.yaml: suites.text: should map settings to values"),
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
        ({"data": "mnist", "modle": "mlp"}, "suites.nets.modle: unknown setting. Choose from: engine, device, model,"),
        ({"data": "mnist", "retry": "failed"}, "suites.nets.retry: unknown setting"),
        ({"data": "mnist", "batch_size": []}, "suites.nets.batch_size: should be a value, a list of values, or"),
        ({"data": "mnist", "batch_size": [[1]]}, "suites.nets.batch_size: should be a value, a list of values, or"),
        ({"data": "mnist", "batch_size": None}, "suites.nets.batch_size: should have a value"),
        ({"data": "mnist", "model": [None, "mlp"]}, "suites.nets.model: should have a value"),
        ({"data": None}, "suites.nets.data: should have a value"),
        ({"data": "mnist", "batch_size": {"full": 1}}, "suites.nets.batch_size: should have a value for each of"),
        ({"data": "mnist", "batch_size": {"quick": 1, "full": 1, "slow": 1}}, "and no other key"),
        ({"data": "mnist", "batch_size": {"quick": [], "full": 1}}, "suites.nets.batch_size: should be a value"),
    ],
)
def test_what_is_wrong_in_a_suite_is_named(section, told):
    with pytest.raises(UserError) as raised:
        axis_overrides("nets", section, "quick", (), True)
    assert str(raised.value).startswith("params.yaml: ")
    assert told in str(raised.value)


GRID = {"data": "mnist", "model": ["cnn", "lstm"], "device": ["cpu", "xla_cpu"], "batch_size": [8, 16]}
RULE = {"model": "lstm", "device": ["xla_cpu"]}


def left_out(words, rule=RULE, **config):
    settings = OmegaConf.create({"suites": {"nets": {**GRID, "exclude": {"quick": [rule], "full": []}}}})
    composed = {"model": {"name": "lstm"}, "device": {"name": Device.xla_cpu}, "batch_size": 8, **config}
    return is_excluded(OmegaConf.create(composed), exclude_rules_in_force(words.split(), settings))


def test_a_rule_leaves_out_the_cells_that_it_matches_whole():
    assert left_out("suite=nets")
    assert not left_out("suite=nets", model={"name": "cnn"})
    assert not left_out("suite=nets", device={"name": Device.cpu})
    assert left_out("suite=nets", rule={"batch_size": [8]})
    assert not left_out("suite=nets", rule={"batch_size": 16})
    assert left_out("suite=nets", rule={"batch_size": 8.0})
    assert not left_out("suite=nets profile=full")


def test_a_rule_stays_valid_when_an_axis_is_narrowed():
    """As `dvc exp run -S suites.nets.model=cnn` does."""
    narrowed = {**GRID, "model": "cnn", "exclude": [RULE]}
    assert exclude_rules("nets", narrowed, "quick") == [{"model": ["lstm"], "device": ["xla_cpu"]}]


def test_what_the_command_line_names_is_never_left_out():
    assert not left_out("suite=nets model=lstm")
    assert left_out("suite=nets batch_size=8")
    assert not left_out("model=lstm")


@pytest.mark.parametrize(
    ("excluded", "told"),
    [
        ("lstm", "should be a list of combinations, such as {model: lstm, device: xla_cpu}"),
        ([{}], "should be a list of combinations"),
        ([{"modle": "lstm"}], "modle is none of the suite's settings. Choose from: data, model, device, batch_size."),
        ({"quick": []}, "should have a list for each of quick, full"),
    ],
)
def test_a_rule_that_is_none_is_named(excluded, told):
    with pytest.raises(UserError, match=r"^params\.yaml: suites\.nets\.exclude: ") as raised:
        exclude_rules("nets", {**GRID, "exclude": excluded}, "quick")
    assert told in str(raised.value)


@pytest.mark.parametrize("suites", [["nets"], 3, "text", None])
def test_suites_that_are_no_mapping_have_no_suite(suites):
    with pytest.raises(UserError, match="suite=nets: unknown suite"):
        put("suite=nets", OmegaConf.create({"suites": suites}))


def write(folder, text):
    (folder / "params.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("suites: [", "not readable"),
        ("suites:\n\t- x", "not readable"),
        (b"\xff\xfe\x00\x01", "not readable"),
        ("- a\n- b", "should be a mapping with profile, data and suites"),
        (
            "profil: quick",
            "unknown profil. Choose from: profile, retry, strict, confirm_s, report_extension, costs, data, suites.",
        ),
    ],
)
def test_what_is_no_params_file_is_named_in_one_line(tmp_path, text, told):
    with pytest.raises(UserError, match=r"^params\.yaml: ") as raised:
        params.load(write(tmp_path, text))
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_params_that_are_not_there_are_named(tmp_path):
    with pytest.raises(UserError, match=r"^params\.yaml: not readable"):
        params.load(tmp_path)


def test_a_data_sets_settings(tmp_path):
    write(tmp_path, "data: {mnist: {source: auto}}")
    assert params.data_settings(tmp_path, "mnist") == {"source": "auto"}
    with pytest.raises(UnknownChoiceError, match=r"data=cifar: unknown data. Choose from: mnist\."):
        params.data_settings(tmp_path, "cifar")
    write(tmp_path, "data: {mnist: auto}")
    with pytest.raises(UserError, match="data should map names to settings"):
        params.data_settings(tmp_path, "mnist")


def test_arguments_of_networks_that_accelbench_does_not_know_are_added():
    words = ["model.args.width=1,2", "data.args.num=3", "model.batch_args.seq_len=8", "batch_size=8"]
    added = ["++model.args.width=1,2", "++data.args.num=3", "++model.batch_args.seq_len=8", "batch_size=8"]
    for model in ("custom", "timm", "mlp,custom"):
        assert with_arguments_added([f"model={model}", *words]) == [f"model={model}", *added]
    for own in (["model=mlp"], []):
        assert with_arguments_added([*own, *words]) == [*own, *words]
