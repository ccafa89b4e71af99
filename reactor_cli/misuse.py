"""What is wrong with a command line, said in our words rather than Typer's."""

from __future__ import annotations

import re
from collections.abc import Sequence

import typer

from reactor_runtime.errors import UsageError

# What Typer says and what we say; `near` is what else may have been meant.
_PHRASES = (
    (r"Invalid value for '?(?P<what>[^':]+)'?: (?:Value error, )?(?P<why>.+)", "{what}: {why}"),
    (r"No such option: (?P<what>\S+)(?: \(Possible options: (?P<near>.+)\))?", "there is no option {what}"),
    (r"No such command '(?P<what>.*?)'(?:\. Did you mean (?P<near>.+)\?)?", 'there is no command "{what}"'),
    (r"Got unexpected extra argument(?:s|\(s\))? \((?P<what>.+)\)", "there is no place for: {what}"),
    (r"Option '?(?P<what>[^' ]+)'? requires an argument", "{what} needs a value"),
    (r"Option '?(?P<what>[^' ]+)'? does not take a value", "{what} takes no value"),
    (r"Missing (?:argument|option) '?(?P<what>[^']+)'?", "{what} is missing"),
)


def explain(error: typer.TyperException, arguments: Sequence[str], commands: Sequence[str]) -> UsageError:
    """Turn what Typer raised for `arguments` into an error of ours that says which help to look at."""
    message = " ".join(error.format_message().split()).rstrip(".")
    named = next((argument for argument in arguments if not argument.startswith("-")), "")
    command = f"reactor {named}" if named in commands else "reactor"
    help_hint = f"`{command} --help` shows what it takes"
    for pattern, phrase in _PHRASES:
        found = re.fullmatch(pattern, message)
        if found:
            said = found.groupdict("")
            near = said.pop("near", "").replace("'", "")
            near = f"one of {near}" if ", " in near else near
            return UsageError(phrase.format(**said), hint=f"did you mean {near}? {help_hint}" if near else help_hint)
    return UsageError(message[:1].lower() + message[1:], hint=help_hint)
