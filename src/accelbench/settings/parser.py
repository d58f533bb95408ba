"""The parser of every command's words, whose errors are the user's."""

import argparse
from typing import Any, NoReturn

from accelbench.errors import UserError


class Parser(argparse.ArgumentParser):
    """A parser that raises a `UserError` instead of exiting."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)  # a mistyped flag must not run another one

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; `{self.prog} --help` shows what there is")
