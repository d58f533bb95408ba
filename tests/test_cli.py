"""Most cases call `main` in this process, since that is fast; what depends on a process of its own starts one."""

import contextlib
import errno
import importlib
import logging
import re
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from omegaconf import OmegaConf

from accelbench.cli import main
from accelbench.commands.command import load_all
from accelbench.grid import plan
from accelbench.isolation import hosts
from accelbench.isolation.hosts import Hosts
from accelbench.project import workplace
from accelbench.schema import plan_file
from accelbench.schema.cell import Status
from accelbench.schema.serialize import grouped
from accelbench.settings.config import every_setting
from accelbench.sweep.session import Session
from fakes import faulty_host, give_ceilings, make_project

COMMANDS = load_all()
NOT_HYDRAS = "only the command line of `accelbench run` accepts Hydra's own settings"
PLAIN = ["mode=infer", "tracking=none", "device=cpu"]
PRECISIONS = "fp16, bf16, fp32, tf32, fp64, fp16_mixed, bf16_mixed, int8"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A project that no test changes."""
    return make_project(tmp_path_factory.mktemp("project"))


def enter(project, monkeypatch):
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "argv", ["accelbench"])
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    plan.report_on.cache_clear()
    return project


@pytest.fixture
def project(shared, monkeypatch):
    return enter(shared, monkeypatch)


def complaint(words, capsys, project):
    """What `main` says about a mistake: one line, exit code 2, nothing written."""
    assert main(words) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert (line.startswith("accelbench: "), captured.out) == (True, "")
    assert not {"runs", "results"} & {path.name for path in project.iterdir()}
    return line.removeprefix("accelbench: ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("model=resnet18", "transformers, a library's network, such as torchvision model.name=resnet18."),
        ("model.name=resnet18", "use model=torchvision, timm or transformers with it"),
        ("model=custom model.target=nets.py", "should be a dotted path that Python can import here"),
        ("precision=bf6", f"precision=bf6: unknown precision. Did you mean bf16? Choose from: {PRECISIONS}."),
        ("-m precision=fp32,bf61", f"precision=bf61: unknown precision. Did you mean bf16? Choose from: {PRECISIONS}"),
        ("-m model.input_shape=3,32,32", "model.input_shape=3,32,32: should be a list: 'model.input_shape=[3,32,32]'"),
        ("batch_size=0", "batch_size: should be `int` >= 1"),
        ("batch_size=8,16", "several values need -m: accelbench -m batch_size=8,16"),
        ("batch_size=[8,16]", "of type 'list' could not be converted to Integer"),
        ("precision=fp32 bf16", "use spaces only between settings, and quote a text with special characters"),
        ("data.train_images=97", "data.train_images=97: mnist has only 96 training images here"),
        ("measure_s=3", "measure_s=3: unknown setting. Did you mean window.measure_s? `accelbench run --help` lists"),
        ("plan --chek", "unrecognized arguments: --chek. `accelbench plan --help`"),
        ("best --search --by latncy", "argument --by: invalid choice: 'latncy' (choose from"),
        ("-m batch_size=range(1,1000000)", "batch_size=range(1,1000000): makes more than 10,000 cells"),
        ("suite=mnist_networks", "suite=mnist_networks: several values need -m"),
        ("plan model=mlp hydra/sweeper=optuna", f"hydra/sweeper=optuna: {NOT_HYDRAS}"),
        ("-m suite=mnist_networks hydra/sweeper=basic", "hydra/sweeper: can't be combined with suite="),
        ("-m batch_size=8,16 hydra/launcher=joblib", "hydra/launcher=joblib: only accelbench's launcher is allowed"),
        ("--info --cfg job", "-m, --cfg, --info: only one of these can be used"),
        ("-m hydra.sweep.dir=elsewhere", "elsewhere: should be a folder under runs/, such as runs/mine"),
        ("\x1b[2Jbogus", r"\x1b[2Jbogus: unknown command."),
        ("run --help windw", "--help windw: unknown topic. Did you mean window? Choose from: engine, device, model,"),
        ("compare a b --fail-if slower", "--fail-if slower: should be from 0% to below 100%, such as slower:5%"),
        ("best --search --budget 5m repeats=3 model=mlp,cnn", "--search decides the number of processes"),
        ("best --serve --latency-ms 50 model=mlp server.rate=5", "server.rate: --serve decides it"),
        ("best --serve --latency-ms 50 model=mlp repeats=2", "repeat, repeats: --serve decides"),
        ("best --serve --latency-ms 50 --percentile 90 server.percentile=99", "--percentile: can't be used with serv"),
        ("best --percentile 99", "--percentile: needs --latency-ms, such as --latency-ms 50"),
        ("best --seeds 6 runs/mine", "--seeds: needs --target"),
        ("best --serve model=mlp", "--serve: needs --latency-ms, such as --latency-ms 50"),
        ("best --serve --latency-ms 50 --search --budget 5m model=mlp", "--search: can't be used with --serve"),
        ("plan model=mine", '/conf/model/mine.yaml", line 3'),  # which is no YAML
        ("best --target 97 model=mlp", "--target 97: should be an accuracy above 0 and at most 1, such as 0.97"),
        (f"best --target 0.9 --seeds {'9' * 4300} model=mlp", "--seeds: makes more than 10,000 cells: "),
        ("best --target 0.9 runs/mine", "runs/mine: not readable as name=value"),
        ("best --target 0.9 model=mlp repeats=2", "repeats: is decided by --target and --seeds, so leave it out"),
        ("compare --target 0.9 a b", "--target: needs --run"),
        ("compare --run --target 0.9 --margin 3% model=mlp model=cnn", "--margin: can't be used with --target"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_words_to_type(words, told, capsys, project):
    (project / "conf/model/mine.yaml").write_text("name: mlp\nargs: [\n")
    assert told in complaint(words.split(), capsys, project)


def test_outside_a_project_there_are_no_suites_and_a_file_in_the_place_of_runs_is_named(capsys, project, here):
    (here / "params.yaml").write_text("train: {suites: 3}\n")
    assert "found no params.yaml with suites" in complaint(["-m", "suite=mnist_networks"], capsys, here)
    (here / "runs").write_text("theirs")
    assert main(["model=mlp", "tracking=none"]) == 2
    assert "not writable (Not a directory)" in capsys.readouterr().err


def help_of(words, capsys):
    assert main(words.split()) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


@pytest.mark.parametrize("words", ["", "--help", "help"])
def test_help_lists_the_commands_and_fits_a_screen(words, capsys, project):
    text = help_of(words, capsys)
    for command in COMMANDS:
        assert f"  {command.name:<12}{command.summary}\n" in text
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS, ids=[command.name for command in COMMANDS])
def test_the_help_of_a_command_fits_a_screen_and_names_its_flags(command, capsys, project, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = help_of(f"{command.name} --help", capsys)
    assert help_of(f"{command.name} batch_size=8 -h", capsys) == text
    assert text.startswith(f"usage: accelbench {command.name}")
    own = text.partition("\nsettings (")[0]  # only `run` lists the settings too
    assert ("settings (" in text and "suite=mnist_networks" in text) == (command.name == "run")
    assert len(own.splitlines()) <= 30
    assert max(map(len, text.splitlines())) <= 80
    assert re.findall(r"^  (--?[\w-]+).* {2}\S", own, re.MULTILINE) == command.flag_names


def test_the_help_of_run_is_short_and_each_topic_explains_its_settings_with_their_choices(capsys, project, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    short, whole = help_of("run --help", capsys), help_of("run --help all", capsys)
    words = set(short.split())
    assert len(short.split()) <= 400
    for topic, settings in grouped(every_setting(project / "conf"), lambda each: each.topic).items():
        text = help_of(f"run --help {topic}", capsys)
        assert text in whole
        for each in settings:
            assert f"  {each.name}=" in text
            assert f"  {each.name}=" in short if each.is_needed else each.name.removeprefix(f"{topic}.") in words
    assert help_of("-m model=cnn,mlp --help precision", capsys).startswith("  precision=fp16|bf16|fp32|tf32|fp64|")
    assert help_of("run --help executor.ray", capsys).count("executor.ray.") == 3
    assert whole.startswith("usage: accelbench run")


def test_plan_lists_the_cells_what_is_skipped_and_the_time(capsys, project):
    lines = help_of("plan mode=infer batch_size=8,16 precision=fp32,tf32 window.measure_s=30", capsys).splitlines()
    assert lines[0] == "4 cells: 2 to run, about 72 s; 2 to skip."
    assert [line.split()[0] for line in lines[2:4]] == [f"mlp-cpu-fp32-b{n}-infer" for n in (8, 16)]
    assert re.search(r" about \d+ s$", lines[2])
    assert lines[5] == "skip 2: tf32 needs an NVIDIA GPU, not cpu: use fp32"
    assert lines[6:] == ["  mlp-cpu-tf32-b8-infer, mlp-cpu-tf32-b16-infer"]
    assert not (project / "runs").exists()


@pytest.fixture
def faulty(tmp_path, monkeypatch):
    """A project whose cells are run by the faulty engine."""
    monkeypatch.setattr(hosts, "Hosts", lambda: Hosts(faulty_host))
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # Hydra adds one for --info
    root = enter(make_project(tmp_path), monkeypatch)
    give_ceilings(workplace().cache)
    return root


MISTAKE = "model.args: there is no such width"


@pytest.mark.parametrize(("fault", "status", "reason"), [("exit", 1, "exit code 3"), ("mistake", 2, MISTAKE)])
def test_a_failure_is_told_once_and_by_the_exit_status_which_is_2_for_a_mistake(faulty, capsys, fault, status, reason):
    words = [f"+model.args.fault={fault}", "mode=infer", "tracking=none"]
    told = f"accelbench: {MISTAKE}\n" * (status == 2)
    assert main([*words, "out=runs/a"]) == status
    (found,) = plan_file.read_planned(faulty / "runs/a")
    assert (found.status, reason in found.reason, found.user_error) == (Status.failed, True, status == 2)
    out, err = capsys.readouterr()
    assert (err, out.count(found.reason), "last words" in out) == (told, 1, False)
    assert re.search(rf"\[1/1\] .*failed  {re.escape(found.reason)}", out)
    assert main([*words, "out=runs/a"]) == status  # now it is known from its record
    assert capsys.readouterr().err == told
    assert main(["-m", *words, "out=runs/b", "batch_size=8,16", "-v"]) == status
    out, err = capsys.readouterr()
    assert (err, "last words" in out) == (told, fault == "exit")
    assert (out.count(found.reason), out.count("for the same reason")) == (1, 1)


def test_ctrl_c_leaves_what_was_measured_the_answer_so_far_and_the_command_that_goes_on(faulty, monkeypatch, capsys):
    measure, stop = Session.measure, lambda *_: signal.raise_signal(signal.SIGTERM)
    words = ["-m", "mode=infer", "tracking=none", "batch_size=8,16,32"]
    with monkeypatch.context() as patched:
        patched.setattr(Session, "measuring", stop)
        assert main(words) == 130
        assert capsys.readouterr().err == "\nInterrupted before the first cell\n"
        patched.undo()
        patched.setattr(Session, "measure", lambda *given: measure(*given) if given[1].cell.batch_size < 32 else stop())
        assert main(words) == 130
    out, err = capsys.readouterr()
    _, said, again = err.splitlines()
    assert (folder := re.fullmatch("Interrupted; 2 of 3 cells have their record, in (runs/.*)", said)[1]) in out
    assert "Page  accelbench report" in out
    assert again == f"To go on: the same command with out={folder}"
    assert main(["best", folder]) == 0
    assert "1 of 3 planned processes have not run yet" in capsys.readouterr().out
    assert main([*words, f"out={folder}"]) == 0
    assert "2 of 3 cells have their record already." in capsys.readouterr().out


def test_plans_records_and_reports_import_nothing_of_the_users(faulty, capsys, monkeypatch):
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    (faulty / "my_loud_nets.py").write_text("import pathlib\npathlib.Path('imported').touch()\nNet = 1\n")
    settings = ["model=custom", "model.target=my_loud_nets.Net", "data=mnist", "mode=infer", "tracking=none"]
    assert main(["plan", *settings]) == 0
    for out in ("runs/a", "runs/b", "runs/b"):  # at last it is known from its record
        assert main([*settings, f"out={out}"]) == 0
    for words in (["report", "runs/a"], ["best", "runs/a"], ["compare", "runs/a", "runs/b"]):
        assert main(words) == 0
    assert "my_loud_nets" not in sys.modules
    assert not (faulty / "imported").exists()
    importlib.import_module("my_loud_nets")  # it would have been seen
    monkeypatch.delitem(sys.modules, "my_loud_nets")
    assert (faulty / "imported").exists()


@pytest.mark.parametrize("flags", ["--fail-if=slower:5%", "", "--target=0.9"])
def test_a_comparison_of_which_one_side_is_skipped_measures_nothing(flags, faulty, capsys):
    words = f"tracking=none data=mnist out=runs/c{' mode=train' * (not flags)}"
    assert main(["compare", "--run", words, f"{words} device=tpu", *flags.split()]) == 2 * ("fail-if" in flags)
    assert "Can't tell which is faster. B is skipped, so nothing is measured: no TPU" in capsys.readouterr().out
    assert not (faulty / "runs/c").exists()


def test_a_comparison_in_turns_goes_on_after_ctrl_c_and_is_answered_again_from_its_records(faulty, monkeypatch, capsys):
    measure, measured = Session.measure, []

    def counted(self, item):
        measured.append(item.cell.id)
        if len(measured) == 4:
            raise KeyboardInterrupt
        return measure(self, item)

    monkeypatch.setattr(Session, "measure", counted)
    sides = [f"mode=infer tracking=none batch_size={size}" for size in (8, 64)]
    assert main(["compare", "--run", *sides, "--fail-if", "slower:5%"]) == 130
    _, said, again = capsys.readouterr().err.splitlines()
    folder = re.fullmatch("Interrupted; 3 of 10 cells have their record, in (runs/.*)", said)[1]
    assert again == f"To go on: the same command with out={folder}"
    assert main(["compare", "--run", *(f"{side} out={folder}" for side in sides), "--fail-if", "slower:5%"]) == 0
    text = capsys.readouterr().out
    assert "Compared: batch_size: 8 | 64" in text
    assert re.search(r"mlp-cpu-fp32-b64-infer +same +\+0.0 % \(.*%\), 5 and 5 processes", text)
    assert (len(measured), len(set(measured))) == (11, 10)
    planned = list(plan_file.read_planned(faulty / folder))
    assert [one.cell.batch_size for one in planned] == [8] * 5 + [64] * 5
    records = sorted(planned, key=lambda one: one.started_at)
    assert [one.cell.repeat for one in records] == list(range(10))
    assert all({a.cell.batch_size, b.cell.batch_size} == {8, 64} for a, b in zip(*[iter(records)] * 2, strict=True))
    assert main(["compare", folder]) == 0
    assert capsys.readouterr().out == text[text.index("A: ") :]


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (KeyboardInterrupt(), 130, "\nInterrupted; every finished cell has its record."),
        (OSError(errno.EMFILE, "Too many open files", "a.py"), 2, "accelbench: a.py: Too many open files"),
        (OSError(errno.ENOSPC, "No space left on device", "a.py"), 2, "accelbench: a.py: disk full"),
    ],
)
def test_an_interruption_and_what_the_system_refuses_is_one_line(project, monkeypatch, capsys, error, status, told):
    monkeypatch.setattr("accelbench.sweep.session.prepare", Mock(side_effect=error))
    assert main(["tracking=none"]) == status
    assert capsys.readouterr().err == f"{told}\n"


@pytest.mark.parametrize(
    "words", [["hydra.run.dir=runs/a"], ["-m", "hydra.sweep.dir=runs/a", "model=mlp,scaling_cnn_small", "batch_size=1"]]
)
def test_hydras_folder_is_that_of_the_records_and_keeps_the_configuration_and_the_words(faulty, words):
    assert main([*words, *PLAIN]) == 0
    planned = list(plan_file.read_planned(faulty / "runs/a"))
    assert {record.status for record in planned} == {Status.ok}
    found = {record.cell.model.name: record.cell.data.name for record in planned}  # each network has its data
    assert found == {"mlp": "mnist", **({"scaling_cnn_small": "random"} if "-m" in words else {})}
    kept = {path.stem: OmegaConf.load(path) for path in (faulty / "runs/a/.hydra").iterdir()}
    assert kept["config"].tracking.name == "none"
    assert "hydra" not in kept["config"]
    assert kept["hydra"].hydra.launcher._target_ == "hydra_plugins.accelbench.CellLauncher"
    assert "mode=infer" in kept["overrides"]
    assert ("model=mlp,scaling_cnn_small" in kept["overrides"]) == ("-m" in words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--cfg job batch_size=7", "\nbatch_size: 7\n"),
        ("--cfg all", "hydra:\n  run:\n"),
        ("--cfg job -p model model=cnn", "# @package model\n"),
        ("--cfg job ~model.args.dropout", "\n  args:\n    widths:\n"),
        ("--hydra-help", "Hydra"),
        ("--config-dir mine --cfg job model=tiny", "\n  name: tiny\n"),
    ],
)
def test_what_hydras_users_know_works(faulty, capsys, words, told):
    (faulty / "mine/model").mkdir(parents=True)
    mlp = (faulty / "conf/model/mlp.yaml").read_text()
    (faulty / "mine/model/tiny.yaml").write_text(mlp.replace("name: mlp", "name: tiny\nnetwork: mlp"))
    with contextlib.suppress(SystemExit):  # by which Hydra ends after its help
        assert main(words.split()) == 0
    captured = capsys.readouterr()
    assert (told in captured.out, captured.err, (faulty / "runs").exists()) == (True, "", False)


TRIED: list[float] = []


class Doubling(Sweeper):
    """Doubles the batch twice, as a sweeper of someone else's may."""

    def setup(self, *, hydra_context, task_function, config):
        self.launcher = Plugins.instance().instantiate_launcher(hydra_context, task_function, config)

    def sweep(self, arguments):
        for index in range(2):
            (job,) = self.launcher.launch([[*arguments, f"batch_size={2**index}"]], index)
            TRIED.append(job.return_value)


def test_a_sweeper_of_someone_elses_gets_the_speed_of_each_job(faulty, monkeypatch):
    monkeypatch.setattr(Doubling, "__module__", "hydra_plugins.doubling")
    monkeypatch.setitem(sys.modules, "hydra_plugins.doubling", sys.modules[__name__])
    Plugins.instance().register(Doubling)
    node = {"_target_": "hydra_plugins.doubling.Doubling"}
    ConfigStore.instance().store(group="hydra/sweeper", name="doubling", node=node)
    assert main(["-m", *PLAIN, "hydra/sweeper=doubling", "out=runs/a"]) == 0
    assert len(list(plan_file.read_planned(faulty / "runs/a"))) == len(TRIED) == 2
    assert min(TRIED) > 0


def test_a_reader_that_goes_away_ends_the_program_in_silence(project):
    script = Path(sys.executable).with_name("accelbench")
    with subprocess.Popen([script, "plan", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()  # as `head` does when it has its lines
        assert process.stderr.read() == b""
        assert process.wait() == 128 + signal.SIGPIPE
