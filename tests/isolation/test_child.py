"""The outcomes of exceptions. Most tests run in this process; those with a framework run in the process of a cell."""

import importlib.util
import json
import os

import pytest

from accelbench.isolation import child
from accelbench.isolation.child import Outcome, Request, decode, encode
from accelbench.schema.vocab import Status
from fakes import make_cell


def answer(fault):
    cell = make_cell(fault)
    return child.respond(Request(cell=cell, engine="fakes", data_folder=os.devnull, timeout_s=cell.timeout_s))


def test_a_format_that_a_layer_has_not_on_a_device_is_skipped_in_the_librarys_words():
    outcome = answer("half")
    assert (outcome.status, outcome.reason) == (Status.skipped, "\"cholesky_cpu\" not implemented for 'Half'")


@pytest.mark.parametrize(
    ("fault", "status", "reason"),
    [
        ("raise", Status.failed, "ValueError: a bad layer with a second line"),
        ("memory", Status.oom, "RuntimeError: [enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate"),
        ("leave", Status.failed, "SystemExit: 3"),
        ("escapes", Status.failed, r"ValueError: \x1b]0;title\x07"),
        ("bad message", Status.failed, "Unprintable"),
        ("unsupported", Status.skipped, "not here but elsewhere"),
    ],
)
def test_an_exception_becomes_a_reason_of_one_line(fault, status, reason):
    outcome = answer(fault)
    assert (outcome.status, outcome.reason.partition(" memory")[0]) == (status, reason)
    traceback_end = {"raise": "ValueError: a bad layer\nwith a second line\n"}
    assert (outcome.error or "").endswith(traceback_end.get(fault, ""))  # the traceback of the model's exception


def test_the_texts_of_an_outcome_are_short_and_safe_to_print_and_arrive_on_one_line():
    outcome = Outcome(status=Status.killed, reason="\n\x1b[1m\udcff\nmore", error="first" + "\x07" * 3_999 + "\n")
    assert outcome.reason == "\\x1b[1m\ufffd more"
    assert outcome.error == "…" + ("\\x07" * 1000 + "\n")[-3999:]
    assert "\n" not in encode(outcome)
    assert decode(Outcome, encode(outcome)) == outcome


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("not finite", "latency_s[1]: should be `float`"), ("of numpy", "Encoding objects of type")],
)
def test_a_measurement_that_no_clock_gives_is_a_failure_that_names_the_value(fault, reason):
    outcome = answer(fault)
    assert (outcome.status, outcome.measurement) == (Status.failed, None)
    assert outcome.reason.startswith(f"the engine's measurement is not valid: {reason}")


SOURCE = "import json\ndef outer(text): return inner(text)\ndef inner(text): return json.loads(text)\n"


def error_of(function):
    with pytest.raises(Exception) as raised:  # noqa: PT011
        function("{")
    error = raised.value
    error.__traceback__ = error.__traceback__.tb_next  # without this file, which counts as user code too
    return error


def test_the_innermost_call_in_the_users_own_files_is_named(tmp_path, monkeypatch):
    (tmp_path / "nets.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("nets", tmp_path / "nets.py")
    nets = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(nets)
    error = error_of(nets.outer)
    outcome = child._failure(error, has_own_code=True)
    assert outcome.reason.startswith("nets.py:3: JSONDecodeError: ")
    files = [line for line in outcome.error.splitlines() if "File" in line]
    assert files == ['  File "nets.py", line 2, in outer', '  File "nets.py", line 3, in inner']
    assert outcome.error.splitlines()[-1].startswith("json.decoder.JSONDecodeError")
    without = child._failure(error_of(json.loads), has_own_code=True)  # without user code, the whole traceback is kept
    assert without.reason.startswith("JSONDecodeError: ")
    assert "json/decoder.py" in without.error
