"""The parser of every command's words, whose errors are the user's."""

import argparse
import re
from typing import Any, NoReturn

from accelbench.errors import UserError, did_you_mean


class Parser(argparse.ArgumentParser):
    """A parser that raises a `UserError` instead of exiting."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)  # a mistyped flag must not run another one

    def error(self, message: str) -> NoReturn:
        """Raises a UserError of argparse's message, with the flag or the choice that an unknown one is like."""
        flag = re.search(r"unrecognized arguments: (\S+)", message)
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        meant = did_you_mean(flag[1], self._option_string_actions) if flag else ""
        meant = did_you_mean(choice[1], re.findall(r"[\w-]+", choice[2])) if choice else meant
        raise UserError(f"{message}.{meant} `{self.prog} --help` shows what there is")
