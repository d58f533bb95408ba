import json
import os
import runpy

import pytest

from accelbench.isolation import child
from accelbench.isolation.child import Outcome, Request, decode, encode
from accelbench.schema.cell import Status
from fakes import make_cell

NOT_VALID = "the engine's measurement is not valid: "


@pytest.mark.parametrize(
    ("fault", "status", "reason"),
    [
        ("raise", Status.failed, "ValueError: a bad layer with a second line"),
        ("memory", Status.oom, "RuntimeError: [enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate"),
        ("leave", Status.failed, "SystemExit: 3"),
        ("bad message", Status.failed, "Unprintable"),
        ("unsupported", Status.skipped, "not here but elsewhere"),
        ("half", Status.skipped, "\"cholesky_cpu\" not implemented for 'Half'"),  # torch's words
        ("not finite", Status.failed, f"{NOT_VALID}latency_s[1]: should be `float`"),
        ("of a fraction", Status.failed, f"{NOT_VALID}Encoding objects of type"),
    ],
)
def test_an_exception_or_a_number_that_no_clock_gives_becomes_a_reason_of_one_line(fault, status, reason):
    cell = make_cell(fault)
    outcome = child.respond(Request(cell=cell, engine="fakes", data_folder=os.devnull, timeout_s=cell.timeout_s))
    assert (outcome.status, outcome.measurement) == (status, None)
    assert outcome.reason.startswith(reason)
    assert "\n" not in outcome.reason
    if fault == "raise":  # the traceback of the model's exception
        assert outcome.error.endswith("ValueError: a bad layer\nwith a second line\n")


def test_the_texts_of_an_outcome_are_short_and_safe_to_print_and_arrive_on_one_line():
    outcome = Outcome(status=Status.killed, reason="\n\x1b[1m\udcff\nmore", error="first" + "\x07" * 3_999 + "\n")
    assert outcome.reason == "\\x1b[1m\ufffd more"
    assert outcome.error == "…" + ("\\x07" * 1000 + "\n")[-3999:]
    assert "\n" not in encode(outcome)
    assert decode(Outcome, encode(outcome)) == outcome


def failure_of(function):
    try:
        function("{")
    except ValueError as error:
        error.__traceback__ = error.__traceback__.tb_next  # without this file, which counts as user code too
        return child._failure(error, has_own_code=True)


def test_the_innermost_call_in_the_users_own_files_is_named(tmp_path, monkeypatch):
    nets = "import json\ndef outer(text): return inner(text)\ndef inner(text): return json.loads(text)\n"
    (tmp_path / "nets.py").write_text(nets)
    monkeypatch.chdir(tmp_path)
    outcome = failure_of(runpy.run_path(str(tmp_path / "nets.py"))["outer"])
    assert outcome.reason.startswith("nets.py:3: JSONDecodeError: ")
    files = [line for line in outcome.error.splitlines() if "File" in line]
    assert files == ['  File "nets.py", line 2, in outer', '  File "nets.py", line 3, in inner']
    assert outcome.error.splitlines()[-1].startswith("json.decoder.JSONDecodeError")
    without = failure_of(json.loads)  # without user code, the whole traceback is kept
    assert without.reason.startswith("JSONDecodeError: ")
    assert "json/decoder.py" in without.error
