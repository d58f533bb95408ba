import io
import re

import pytest
from rich.console import Console

from accelbench.answers.jobs import jobs
from accelbench.report.questions import questions
from accelbench.report.table import Table, number, rendered, word
from accelbench.schema.measurement import Work
from report.pictures.samples import served, working


@pytest.fixture
def asked(read):

    def asked(records):
        cells = read(records).cells
        return {question.title: question for question in questions(cells, jobs(cells))}

    return asked


def test_the_limit_and_the_phases_have_a_line_for_each_job(asked, maker) -> None:
    assert asked([maker.ok(maker.cell(), 100)]) == {}
    records = [working(maker, "mlp"), working(maker, "cnn", work=Work(flops=10**12, bytes=10**6, num_operators=9))]
    found = asked(records)
    limit = found["How near to the limit?"]
    assert limit.sentence.startswith("The fastest cells reach 50 to 3")
    assert limit.lines[0].value > 100
    time = found["Where does the time go?"]
    assert time.sentence.startswith("Waiting for data, copying and the framework take 20 % of a step")
    assert time.lines[0].probe["forward"] == pytest.approx(60)


def test_requests_have_a_section_for_each_workload_with_the_probes_of_each_setting(asked, maker) -> None:
    question = asked(served(maker))["How many requests per second?"]
    assert question.sentence.startswith("PyTorch fp32, batches of at most 8: ")
    assert re.search(r": 200 to 2[0-4]\d requests/s with p99 at most 50 ms \(sure\)", question.sentence)
    assert [line.name.partition(", ")[2] for line in question.lines] == [
        *["batches of at most 8"] * 5,
        *["one at a time"] * 2,
    ]
    # Of two processes of one cell, the figures are of the one that passed.
    assert [line.probe["request_p99_ms"] for line in question.lines[1:3]] == [52, 40]
    shown = dict(zip(question.table.headings, (entry.text for entry in question.table.rows[0]), strict=True))
    assert {"requests/s: from", "to", "p99 (ms)"} <= set(shown)
    assert shown["busy (%)"] == "62.5"
    assert "J/request" not in shown
    several = asked([*served(maker), *served(maker, "mlp")])
    assert [title.partition("? ")[2].split()[0] for title in several] == ["cnn", "mlp"]


@pytest.mark.parametrize("width", [80, 90, 112])
def test_a_table_of_prices_breaks_no_word_and_is_no_wider_than_the_terminal(width) -> None:
    headings = ["best by", "with", "samples/s", "± (%)", "p50 (ms)", "cost of a million", "bound by", "doubts"]
    texts = ["throughput, money", "cpu fp32 b8"], ["latency, energy", "cpu bf16 b128, pytorch"]
    rows = [[*map(word, own), *map(number, (2740, 48, 452, 313)), word("compute"), number(2)] for own in texts]
    out = io.StringIO()
    Console(file=out, width=width).print(rendered(Table(title="", headings=headings, rows=rows), width))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert max(map(len, lines)) <= width
    shown = " ".join(lines).split()
    assert {entry for row in rows for each in row for entry in each.text.split()} <= set(shown)
    assert {part for heading in headings for part in heading.split()} <= set(shown)
