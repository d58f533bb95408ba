from accelbench.isolation.messages import Outcome, decode, encode
from accelbench.schema.vocab import Status


def test_the_texts_of_an_outcome_are_short_and_safe_to_print_and_arrive_on_one_line():
    outcome = Outcome(status=Status.killed, reason="\n\x1b[1m\udcff\nmore", error="first" + "\x07" * 3_999 + "\n")
    assert outcome.reason == "\\x1b[1m\ufffd"
    assert outcome.error == "…" + ("\\x07" * 1000 + "\n")[-3999:]
    assert "\n" not in encode(outcome)
    assert decode(Outcome, encode(outcome)) == outcome
