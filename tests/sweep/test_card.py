import dataclasses
import io
import re

import pytest
from rich.console import Console

from accelbench.schema.conditions import SystemSeries
from accelbench.schema.measurement import Breakdown, Check, Epoch, Evaluation
from accelbench.schema.vocab import Mode, Phase, Promise, Protocol, Status
from accelbench.sweep import terminal
from fakes import make_cell, make_measurement, make_record

PHASES = {Phase.data_wait: [0.001] * 8, Phase.forward: [0.007] * 8, Phase.framework: [0.002] * 8}
LEARNED = Evaluation(num_samples=9, loss=0.1, accuracy=0.985, seconds=0.1)


def shown(status=Status.ok, width=120, places=None, cell=None, reason=None, **changes):
    system = SystemSeries(t_s=[], values={}, peak_host_bytes=612_000_000)
    made = make_record(cell, status, reason=reason, measurement=make_measurement(**changes), system=system)
    console = Console(file=io.StringIO(), width=width)
    (path, *others) = (places or {"record": "runs/x/y.json"}).items()
    terminal.show_card(made, path[1], console)
    terminal.show_places(dict(others), console)
    return console.file.getvalue()


def lines(text):
    """First word -> the rest, of lines that have one there; the others continue it."""
    found = [line.strip().partition("  ") for line in text.splitlines() if line.strip()]
    return {name: rest.strip() for name, _, rest in found}


def test_the_figures_of_a_cell_with_their_intervals():
    told = lines(shown())
    assert told["cell"] == "mlp-cpu-fp32-b32-infer: 3,200 samples/s on a CPU"
    assert told["speed"] == "3,200 to 3,200 samples/s with 95 % confidence, in this process"
    assert told["latency"] == "p50 10.0 ms, p90 10.0 ms  (p50 10.0 to 10.0 ms)"
    assert told["memory"] == "at most 612 MB of the processes"
    assert told["time"] == "inference over the test set takes 0.0156 s (estimated from the speed)"


def test_the_card_says_what_was_checked_over_what_share():
    checks = [
        Check(promise=Promise.outputs, observed="32 random rows of 128, of 1 of 1 tensors", share=0.25),
        Check(promise=Promise.settings),
    ]
    told = lines(shown(checks=checks))
    assert told["checked"] == "outputs 25 % (32 random rows of 128, of 1 of 1 tensors); settings (not observed)"
    assert "checked" not in lines(shown())


def test_a_tail_without_enough_steps_is_not_shown():
    assert "p90" not in shown(latency_s=[0.01] * 63)
    assert "latency" not in shown(latency_s=[])


def test_a_step_is_a_bar_whose_parts_are_its_phases():
    text = shown(breakdown=Breakdown(phases_s=PHASES, undisturbed_s=[0.01] * 8))
    bar = lines(text)["step"]
    assert {fill: bar.count(fill) for fill in set(bar)} == {"░": 5 + 10, "█": 33}
    assert len(bar) == terminal.BAR_WIDTH
    assert "10.0 ms: data wait 10 %, forward 70 %, framework 20 %" in text


def test_the_time_of_whole_epochs_is_measured():
    epochs = [Epoch(seconds=2.0, num_samples=100, loss=0.5)] * 3
    fit = make_cell(mode=Mode.train, protocol=Protocol.fit, epochs=3)
    assert lines(shown(cell=fit, epochs=epochs))["time"] == "training for 3 epochs takes 6.00 s"


def test_warnings_and_places_are_named():
    link = "http://127.0.0.1:5000/#/experiments/1/runs/" + 32 * "a" + "?workflowType=machine_learning"
    text = shown(
        warnings=["the clock [drifted]", "others ran"], places={"record": "runs/x/y.json", "MLflow": link}, width=80
    )
    assert re.search(r"warning +the clock \[drifted\] *\n +warning +others ran", text)
    assert f"  record    runs/x/y.json\n  MLflow    {link}\n" in text  # an address is never folded


def test_what_a_function_counts_as_samples_is_said_once_and_not_hidden_by_warnings():
    note, model = "80 samples in a batch of 8, counted by ex.ten", make_cell().model
    cell = make_cell(model=dataclasses.replace(model, samples="ex.ten"))
    text = shown(cell=cell, notes=[note], warnings=[f"{number}. warning" for number in range(5)])
    assert text.count("counted by ex.ten") == 1
    assert lines(text)["note"] == note


@pytest.mark.parametrize("status", [Status.invalid, Status.failed])
def test_no_figure_of_a_cell_that_is_not_ok(status):
    text = shown(status, reason="for [a] reason", places={"record": "runs/x/y.json"})
    assert lines(text)["reason"] == "for [a] reason"
    assert "samples/s" not in text
    assert "runs/x/y.json" in text


def test_of_many_warnings_two_are_shown_and_the_others_counted():
    text = shown(warnings=[f"{number}. warning" for number in range(5)])
    assert "1. warning" in text
    assert "2. warning" not in text
    assert "and 3 more warnings, in the record" in text
