import pytest

from accelbench.errors import UserError
from accelbench.settings.parser import Parser


def test_a_parser_lists_its_flags_and_raises_instead_of_exiting():
    parser = Parser(prog="x")
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("word")
    parser.add_argument("--port", type=int)
    assert parser.flags == ["-h", "-v", "--port"]
    with pytest.raises(UserError, match="argument --port: invalid int value: 'y'; `x --help` shows"):
        parser.parse_args(["a", "--port", "y"])
