import io
import shutil
from dataclasses import replace

from rich.console import Console

from accelbench import pipeline
from accelbench.answers.jobs import jobs
from accelbench.report import read
from accelbench.schema.cell import Options, Status
from accelbench.search.top import answer, folder_of, questions
from accelbench.sweep import run
from fakes import make_cell, make_options
from report.conftest import Maker
from tests.sinks.stores import client_of, opened

maker = Maker()


def asked(tmp_path, budgets_s, *records):
    maker.suite(tmp_path / "results", list(records))
    sweeps = read.read_all(tmp_path / "results")
    return [[each.first.cell.model.name for each in questions(sweeps, budget_s)] for budget_s in budgets_s]


def pair(model, rates, wall_s=1.0, **other):
    cells = [maker.cell(model), maker.cell(model, **other or {"precision": "bf16"})]
    return [replace(maker.ok(cell, rate), wall_s=wall_s) for cell, rate in zip(cells, rates, strict=True)]


def test_the_cheapest_questions_are_asked_first_and_of_these_the_closest(tmp_path):
    slow = [*pair("dear", (10, 20), 9.0), *pair("far", (10, 20)), *pair("near", (10, 11))]
    # Five processes of each of two cells of 1 s take 10 s; of 0.1 s they take 1 s.
    found = asked(tmp_path, (1000.0, 12.0, 0.0), *slow, *pair("fast", (1, 2), 0.1))
    assert found == [["fast", "near", "far", "dear"], ["fast", "near"], []]
    sizes = pair("cnn", (320, 80), 0.1, batch_size=32)  # which of two batch sizes is faster is a question too
    assert asked(tmp_path / "sizes", [1000.0], *sizes, *pair("mlp", (1, 2))) == [["cnn", "mlp"]]


def test_after_it_is_answered_the_report_is_sure_or_says_that_it_cannot_tell(project, shared, empty_store, monkeypatch):
    shutil.copy(empty_store / "mlflow.db", project)
    cells = [make_cell(), make_cell(options=Options(channels_last=True))]
    options = make_options(out=None, tracking="mlflow")
    console = Console(file=io.StringIO(), width=200)
    run.run(cells, options, console, project / "results" / "test", hosts=shared)
    (question,) = questions(read.read_all(project / "results"), 1000.0)
    folder = project / "confirmed"
    done = answer([question], folder, console, shared)
    assert [record.status for record in done] == [Status.ok] * 10
    assert answer([question], folder, console, shared) == done
    sweeps = read.read_all(project / "results")
    assert list(map(folder_of, questions(sweeps, 1000.0))) == [folder_of(question)]  # it keeps what it has
    assert len(sweeps[0].cells) == 2
    (found,) = jobs(sweeps[0].cells)
    assert found.lead.is_interleaved
    assert "too few blocks" not in found.lead.how_sure
    assert [cell.num_processes for cell in found.cells] == [5, 5]
    opened(project).finish(sweeps[0].processes)
    client = client_of(project)
    (experiment,) = client.search_experiments(filter_string="name LIKE 'accelbench/%'")
    measured = client.search_runs([experiment.experiment_id], "tags.record != ''")
    assert len(measured) == 12
    assert {run.data.tags["cell"] for run in measured} == {cell.measured_key for cell in found.cells}
    assert "Question 1 of 1" in console.file.getvalue()
    assert f"is {cells[0].label} or {cells[1].label} faster?" in console.file.getvalue()  # the reference comes first

    monkeypatch.setattr(pipeline.params, "suite_names", lambda root: ["test"])
    monkeypatch.setattr(pipeline.params, "confirm_s", lambda root: 0.0)  # no question is asked any more
    pipeline.confirm_best(project, console, shared)
    assert len(list(folder.glob("*/*-*.json"))) == 10  # the records stay
    assert [cell.num_processes for cell in read.read_all(project / "results")[0].cells] == [1, 1]
