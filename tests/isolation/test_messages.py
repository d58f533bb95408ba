import pytest

from accelbench.isolation.messages import CellRequest, Outcome, ProbeRequest, decode, decode_request, encode
from accelbench.schema.measurement import SystemSeries
from accelbench.schema.vocab import Device, Precision, Status
from fakes import make_cell, make_measurement

REQUESTS = [
    CellRequest(cell=make_cell("raise"), engine="an.engine", data_folder="data/x", timeout_s=1.5, num_processes=2),
    ProbeRequest(
        prober="a.prober", device=Device.gpu, precisions=[Precision.fp32], timeout_s=300.0, log="/tmp/a\nb.log"
    ),
]
OUTCOMES = [
    Outcome(status=Status.ok, measurement=make_measurement(steady_boot_s=(1.0, 2.5)), peak_host_bytes=7),
    Outcome(status=Status.failed, reason="ValueError: x", error="a\nb", user_error=True),
    Outcome(status=Status.ok, measurement=make_measurement(), system=SystemSeries(t_s=[0.1], values={"a": [None]})),
]


@pytest.mark.parametrize("message", [*REQUESTS, *OUTCOMES])
def test_a_message_arrives_as_it_was_sent_on_one_line(message):
    text = encode(message)
    assert "\n" not in text
    assert (decode_request(text) if message in REQUESTS else decode(Outcome, text)) == message


def test_the_texts_of_an_outcome_are_short_and_safe_to_print():
    outcome = Outcome(status=Status.killed, reason="\n\x1b[1m\udcff\nmore", error="first" + "\x07" * 3_999 + "\n")
    assert outcome.reason == "\\x1b[1m\ufffd"
    assert outcome.error == "…" + ("\\x07" * 1000 + "\n")[-3999:]
    assert decode(Outcome, encode(outcome)) == outcome
