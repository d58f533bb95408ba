import pytest

from accelbench.errors import UserError
from accelbench.settings.parser import Parser


def test_a_parser_raises_instead_of_exiting():
    parser = Parser(prog="x")
    parser.add_argument("word")
    parser.add_argument("--port", type=int)
    with pytest.raises(UserError, match="argument --port: invalid int value: 'y'; `x --help` shows"):
        parser.parse_args(["a", "--port", "y"])
