import dataclasses
from itertools import product

import pytest

from accelbench.api.run import words_of
from accelbench.devices.registry import fastest_for
from accelbench.errors import UserError
from accelbench.schema.cell import Window
from accelbench.settings.compose import cells_of, compose, one_cell, user_error_behind
from devices.fakes import FakeNvml

SUITE = "data: {random: {}}\nprofiles: {quick: window.measure_s=2}\nsuites: {demo: {data: random, quick: [%s]}}\n"


def test_the_device_is_the_fastest_that_is_here_unless_it_is_named(project, monkeypatch, request):
    (project / "params.yaml").write_text(SUITE % "seed=3")
    FakeNvml().answer(monkeypatch)
    fastest_for.cache_clear()
    request.addfinalizer(fastest_for.cache_clear)
    for words, device, is_auto in (
        *(("", "gpu", True), ("device=auto", "gpu", True), ("device=cuda", "gpu", False), ("device=cpu", "cpu", False)),
        *(("engine=openvino mode=infer", "cpu", False), ("engine=openvino mode=infer device=auto", "cpu", True)),
        ("-m suite=demo", "cpu", False),  # what a pipeline measures is the same on every machine
    ):
        (cell,), options = cells_of(compose(words.split()))
        assert (cell.device, options.is_auto) == (device, is_auto), words


def test_a_sweeps_configuration_is_that_of_a_run_of_its_own(project):
    own = ["model=custom", "model.target=a.B"]
    axes = {
        "model.args.widths": ("[8]", "[8,9]"),
        "model.batch_size": "45",
        "model.input_shape": ("[3,8,8]", "[1,9,9]"),
        "precision": ("fp32", "bf16"),
        "compile": ("false", "true"),
        "trainer.gradient_clip_val": "12",
    }
    found = compose(["-m", *own, *(f"{name}={','.join(values)}" for name, values in axes.items())])
    assert len({str(one) for one in found}) == len(found) == 2**6  # none was changed afterwards
    combinations = list(product(*axes.values()))
    for number in (0, 32, 42, 63):  # at 32, all values but the first one's are again those of 0
        words = [f"{name}={value}" for name, value in zip(axes, combinations[number], strict=True)]
        assert [found[number]] == compose([*own, *words])


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("protocol=server mode=train", "mode=train: protocol=server serves requests: use mode=infer"),
        ("steps=50", "steps=50: has no effect: it needs protocol=steps"),  # also the default's value
        ("-m protocol=window,fit steps=5,6", "steps=5: has no effect: it needs protocol=steps"),
        ("protocol=single_stream server.workers=2", "server.workers=2: has no effect: it needs protocol=server"),
        ("engine.xla_processes=true", "engine.xla_processes=true: has no effect: it needs devices>1"),
        ("executor=ray executor.slurm.qos=high", "executor.slurm.qos=high: has no effect: it needs executor=slurm"),
        ("executor.name=slurm", "executor.name=slurm: executor.slurm.nodes is missing: use executor=slurm"),
        ("executor=slurm executor.slurm.time=0", "executor.slurm.time: should be `int` >= 1"),
    ],
)
def test_a_setting_that_no_cell_reads_or_out_of_range_is_refused_with_what_to_type(project, words, refusal):
    with pytest.raises(UserError, match=f"^{refusal}"):
        cells_of(compose(words.split()))


def test_a_setting_that_one_cell_of_a_sweep_reads_is_no_mistake_and_what_serves_infers_unless_a_mode_is_named(project):
    cells_of(compose(["-m", "protocol=steps,window", "steps=100", "window.measure_s=2"]))
    serving = compose(["-m", "protocol=window,server,offline", "server.rate=9", "server.duration_s=99"])
    assert [cell.mode for cell in cells_of(serving)[0]] == ["train", "infer", "infer"]
    cells_of(compose(["-m", "engine=pytorch,keras", "engine.jit_compile=true"]))
    cells_of(compose(["scaling=weak"]))  # of one device, which another command compares with several


def of_suite(project, line):
    (project / "params.yaml").write_text(SUITE % line)
    return cells_of(compose(["-m", "suite=demo"]))


def test_a_line_of_a_suite_has_no_setting_without_an_effect_but_a_profile_may(project):
    (cell,), _ = of_suite(project, "protocol=steps")
    assert cell.window == Window()
    with pytest.raises(UserError, match="^steps=3: has no effect: it needs protocol=steps"):
        of_suite(project, "steps=3")


def test_paths_of_ones_own_files_may_have_spaces_commas_and_signs(project):
    names = ["my weights, 2 (a=b).safetensors", "other one.safetensors", "my pictures, 2020"]
    for name in names:
        (project / name).mkdir()
    first, second, pictures = names
    of_network = ["model=custom", "model.target=nets.Net", "mode=infer"]
    several = compose(["-m", *of_network, f"model.weights=none,{second}"])
    several += compose([*of_network, f"model.weights={first}"])
    assert [config.model.weights for config in several] == ["none", second, first]
    several = compose(["data=folder", f"data.path={pictures}"])
    several += compose(words_of("data=folder", {"data.path": project / pictures}))
    assert [config.data.path for config in several] == [pictures, str(project / pictures)]


OWN = ["model=custom", "model.target=torch.nn.Linear"]


@pytest.mark.parametrize("words", [[*OWN, "model.args.key=${oc.env:HIDDEN}"], ["-m", "model=mlp,leak"]])
def test_an_environment_variable_is_no_value_of_a_setting(project, monkeypatch, capsys, words):
    monkeypatch.setenv("HIDDEN", "q8ZpL2xVw7")
    (project / "conf/model/leak.yaml").write_text("name: mlp\nargs: {key: '${oc.env:HIDDEN}'}\n")
    with pytest.raises(Exception) as raised:  # noqa: PT011
        compose(words)
    told = str(user_error_behind(raised.value))
    assert told.startswith("${oc.env:HIDDEN}: records and reports would show")
    assert "q8ZpL2xVw7" not in told + "".join(capsys.readouterr())


def test_a_secret_is_no_argument(project, monkeypatch):
    monkeypatch.setenv("SERVICE_TOKEN", "abcdefghij")
    for setting, value in (("opener", "abcdefghij"), ("cfg", "{depth:3,login:{wandb_key:abcdefghij}}")):
        composed = compose([*OWN, f"model.args.{setting}={value}"])
        with pytest.raises(UserError, match=f"model.args.{setting}: looks like a secret") as raised:
            cells_of(composed)
        assert "abcdefghij" not in str(raised.value)
    ((cell,), _) = cells_of(compose([*OWN, "model.args.pad_token='<pad>'", "model.args.secret=3"]))  # no secrets
    assert cell.model.args["pad_token"] == "<pad>"


def test_each_cell_keeps_the_words_that_ask_for_it_again(project):
    asked = ["-m", "mode=infer", "precision=fp32,bf16", "out=runs/x", "repeats=2"]
    asked += ["model=custom", "model.target=my.Net", "model.args.text='a b'"]
    # Of the profile's settings, fit uses none.
    for cells, options in (cells_of(compose(asked)), of_suite(project, "'model=cnn protocol=fit,window'")):
        for cell in cells:
            first = dataclasses.replace(cell, repeat=0)
            again, _ = one_cell(options.words_of[first.id])
            assert dataclasses.replace(again, suite=cell.suite) == first
