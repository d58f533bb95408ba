"""Searches for the most requests per second, with the engine that serves as its cells say (`fakes.make_serving`)."""

import io
import re

import pytest
from rich.console import Console

from accelbench.answers.serving import capacities
from accelbench.cli import main
from accelbench.report import read
from accelbench.schema import plan_file
from accelbench.schema.vocab import Protocol
from accelbench.search.base import BaseSearch
from accelbench.search.serving import search
from fakes import make_cell, make_options
from search.test_search import written

OPTIONS = make_options(out="runs/mine")
NO_RATE = "no rate keeps the limit of 50 ms: even one request at a time"


def settings(*sizes, fault="serve", **changes):
    """Cells as --serve makes them."""
    return [make_cell(fault, protocol=Protocol.server, batch_size=size, **changes) for size in sizes]


@pytest.fixture
def searched(shared, project, monkeypatch):
    """Searches; returns the exit status and what was printed. Each record takes ten seconds of the budget."""
    monkeypatch.setattr(BaseSearch, "now", staticmethod(lambda: 10.0 * len(written(project))))

    def searched(cells, budget_s=10_000.0):
        console = Console(file=io.StringIO(), width=300)
        searched.text = console.file.getvalue
        status = search(cells, OPTIONS, budget_s, console, shared)
        return status, console.file.getvalue()

    return searched


def test_a_search_ends_with_a_sentence_and_records_that_say_the_same(searched, project):
    status, text = searched(settings(1, 8))
    assert status == 0, text
    (sweep,) = read.read_all(project / "runs/mine")
    (best,) = capacities(sweep.cells)  # the other one's offline throughput is below what this one serves
    assert best.low < 560 < best.high <= 1.05 * best.low
    assert best.sentence in text
    assert re.search(r"batches of at most 8: \d+ to \d+ requests/s with p99 at most 50 ms \(sure\)", text)
    assert "To go on" not in text
    assert "mlp-cpu-fp32-b8-infer-server-400rps-" in text
    assert "400 requests/s, p99 30.0 ms, sure pass: p99 at most 50 ms" in text
    assert re.search(r"Not probed \(in brackets: requests/s if all arrive at once\): .*\(100\)", text)
    assert len({probe.seed for probe in best.probes}) == len(best.probes)
    assert len(sweep.records) == len(written(project)) == len(best.probes) + 1 + 2  # alone, and offline for each
    before = written(project)
    assert searched(settings(1, 8))[0] == 0
    assert written(project) == before


def test_a_probe_whose_requests_came_late_is_tried_again_with_another_seed(searched, project):
    status, text = searched(settings(8, fault="serve late"), budget_s=400.0)
    assert status == 0, text
    assert " requests/s with p99 at most 50 ms (" in text
    status, text = searched(settings(8, fault="serve later"), budget_s=100.0)
    assert status == 1
    assert "No rate is surely within the limit for 1 of 1 workload. The lines above have the reasons." in text
    assert "requests were issued .72" in text


def test_each_workload_needs_a_rate(searched):
    status, text = searched([*settings(8), *settings(8, fault="serve slowly")])
    assert status == 1
    assert "No rate is surely within the limit for 1 of 2 workloads." in text


def test_the_budget_ends_it_and_the_same_command_goes_on(searched, project):
    status, text = searched(settings(8), budget_s=45.0)
    assert status == 0, text
    assert "To go on: run the same command with out=runs/mine; it has a new budget" in text
    first = written(project)
    status, text = searched(settings(8), budget_s=4.0)
    assert "To go on: run the same command with out=runs/mine; it has a new budget" in text
    assert first == written(project)
    status, text = searched(settings(8))
    assert "To go on" not in text
    assert first.items() <= written(project).items()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("serve slowly", f"{NO_RATE} took 60.0 ms (p50)"),
        ("raise", "failed: ValueError: a bad layer with a second line"),
    ],
)
def test_what_can_not_be_served_is_said_at_once(fault, reason, searched, project):
    status, text = searched(settings(8, fault=fault))
    assert status == 1
    assert reason in text
    assert text.endswith("No rate is surely within the limit for 1 of 1 workload. The lines above have the reasons.\n")
    assert len(written(project)) <= 2
    assert len(list(plan_file.read_planned(project / "runs/mine"))) == len(written(project))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--latency-ms 50 model=mlp server.rate=5", "server.rate: --serve decides it"),
        ("--latency-ms 50 model=mlp server.percentile=99.9 repeats=2", "repeat, repeats: --serve decides"),
        ("--latency-ms 50 --percentile 90 model=mlp server.percentile=99", "--percentile: can't be used with serv"),
        ("model=mlp", "--serve: needs --latency-ms, such as --latency-ms 50"),
        ("--latency-ms 50 --search --budget 5m model=mlp", "--search: can't be used with --serve"),
    ],
)
def test_a_mistake_is_told(words, message, project, capsys):
    assert main(["best", "--serve", *words.split()]) == 2
    assert message in capsys.readouterr().err
