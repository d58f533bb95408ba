"""Tables and answers as a terminal shows them."""

from rich import box
from rich.bar import Bar
from rich.table import Table as RichTable
from rich.text import Text

from accelbench.answers.sentences import Answer
from accelbench.report.tables.table import Table
from accelbench.schema.vocab import Device

BAR_WIDTH = 8
LEAST_WIDTH = 6  # of names: a narrower terminal folds numbers at spaces, and cuts off bars and words to their right
COLOURS = {Device.cpu: "blue", Device.gpu: "green", Device.tpu: "red", Device.xla_cpu: "magenta"}


def rendered(table: Table) -> RichTable:
    """`table` for rich to print; cells fold where the terminal is too narrow."""
    made = RichTable(title=table.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading, numeric in zip(table.headings, table.numeric, strict=True):
        made.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in table.rows:
        made.add_row(*(Text(entry.text) for entry in row))
    return made


def bars(answer: Answer) -> RichTable:
    """A line for each of an answer's fastest settings, with a bar in the colour of its device."""
    made = RichTable.grid(padding=(0, 2, 0, 0))
    made.add_column(overflow="fold", min_width=LEAST_WIDTH)
    rate_width = max((len(word) for each in answer.candidates for word in each.rate.split()), default=0)
    made.add_column(justify="right", overflow="fold", min_width=rate_width)
    made.add_column(min_width=BAR_WIDTH)
    made.add_column(overflow="fold", min_width=LEAST_WIDTH)
    for each in answer.candidates:
        bar = Bar(1.0, 0.0, each.share, width=BAR_WIDTH, color=COLOURS[Device(each.device)])
        made.add_row(Text(f"  {each.label}"), Text(each.rate), bar, Text(each.verdict))
    return made
