"""The command line as Hydra's users know it."""

import contextlib
import logging
import sys

import pytest
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from omegaconf import OmegaConf

from accelbench.cli import main
from accelbench.isolation import hosts
from accelbench.isolation.hosts import Hosts
from accelbench.schema.cell import Status
from accelbench.schema.plan_file import read_planned
from fakes import faulty_host, make_project

PLAIN = ["mode=infer", "tracking=none", "device=cpu"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project whose cells are run by the faulty engine."""
    root = make_project(tmp_path)
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "argv", ["accelbench"])
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # Hydra adds one for --info
    monkeypatch.setattr(hosts, "Hosts", lambda: Hosts(faulty_host))
    return root


@pytest.mark.parametrize("words", [["hydra.run.dir=runs/a"], ["-m", "hydra.sweep.dir=runs/a", "model=mlp,rnn"]])
def test_hydras_folder_is_that_of_the_records_and_keeps_the_configuration_and_the_words(project, words):
    assert main([*words, *PLAIN]) == 0
    assert {record.status for record in read_planned(project / "runs/a")} == {Status.ok}
    kept = {path.stem: OmegaConf.load(path) for path in (project / "runs/a/.hydra").iterdir()}
    assert kept["config"].tracking.name == "none"
    assert "hydra" not in kept["config"]
    assert kept["hydra"].hydra.launcher._target_ == "hydra_plugins.accelbench.CellLauncher"
    assert "mode=infer" in kept["overrides"]
    assert ("model=mlp,rnn" in kept["overrides"]) == ("-m" in words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--cfg job batch_size=7", "\nbatch_size: 7\n"),
        ("--cfg all", "hydra:\n  run:\n"),
        ("--cfg job -p model model=cnn", "# @package model\n"),
        ("--cfg job ~model.args.dropout", "\n  args:\n    widths:\n"),
        ("--cfg job +model.args.more=3", "\n    more: 3\n"),
        ("--hydra-help", "Hydra"),
        ("--config-dir mine --cfg job model=tiny", "\n  name: tiny\n"),
    ],
)
def test_what_hydras_users_know_works(project, capsys, words, told):
    (project / "mine/model").mkdir(parents=True)
    mlp = (project / "conf/model/mlp.yaml").read_text()
    (project / "mine/model/tiny.yaml").write_text(mlp.replace("name: mlp", "name: tiny\nnetwork: mlp"))
    with contextlib.suppress(SystemExit):  # by which Hydra ends after its help
        assert main(words.split()) == 0
    captured = capsys.readouterr()
    assert (told in captured.out, captured.err, (project / "runs").exists()) == (True, "", False)


def test_several_data_sets_are_measured_each_by_its_networks(project):
    assert main(["-m", *PLAIN, "out=runs/a", "model=mlp,scaling_cnn_small", "batch_size=1"]) == 0
    found = {record.cell.model.name: record.cell.data.name for record in read_planned(project / "runs/a")}
    assert found == {"mlp": "mnist", "scaling_cnn_small": "random"}


TRIED: list[float] = []


class Doubling(Sweeper):
    """Doubles the batch twice, as a sweeper of someone else's may."""

    def setup(self, *, hydra_context, task_function, config):
        self.launcher = Plugins.instance().instantiate_launcher(hydra_context, task_function, config)

    def sweep(self, arguments):
        for index in range(2):
            (job,) = self.launcher.launch([[*arguments, f"batch_size={2**index}"]], index)
            TRIED.append(job.return_value)


def test_a_sweeper_of_someone_elses_gets_the_speed_of_each_job(project, monkeypatch):
    monkeypatch.setattr(Doubling, "__module__", "hydra_plugins.doubling")
    monkeypatch.setitem(sys.modules, "hydra_plugins.doubling", sys.modules[__name__])
    Plugins.instance().register(Doubling)
    node = {"_target_": "hydra_plugins.doubling.Doubling"}
    ConfigStore.instance().store(group="hydra/sweeper", name="doubling", node=node)
    assert main(["-m", *PLAIN, "hydra/sweeper=doubling", "out=runs/a"]) == 0
    assert len(list(read_planned(project / "runs/a"))) == len(TRIED) == 2
    assert min(TRIED) > 0


@pytest.mark.parametrize("launcher", ["joblib", "basic"])
def test_a_launcher_that_runs_cells_side_by_side_is_refused(project, capsys, launcher):
    assert main(["-m", *PLAIN, "batch_size=8,16", f"hydra/launcher={launcher}"]) == 2
    assert f"hydra/launcher={launcher}: only accelbench's launcher is allowed" in capsys.readouterr().err
