"""The parser of every command's words, whose errors are the user's."""

import argparse
from typing import Any, NoReturn

from accelbench.errors import UserError


class Parser(argparse.ArgumentParser):
    """A parser that raises a `UserError` instead of exiting, and lists its flags."""

    def __init__(self, **settings: Any) -> None:
        self.flags: list[str] = []  # each in its first spelling, in the order of declaration
        super().__init__(**settings, allow_abbrev=False)  # a mistyped flag must not run another one

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        action: argparse.Action = super().add_argument(*names, **settings)
        self.flags += action.option_strings[:1]
        return action

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; `{self.prog} --help` shows what there is")
