"""Print a script by which a shell completes the commands, their options and their values.

    eval "$(relaxjax completion bash)"          # in ~/.bashrc
    eval "$(relaxjax completion zsh)"           # in ~/.zshrc, after compinit
    relaxjax completion fish | source           # in ~/.config/fish/config.fish

The script holds all that it offers, so completing starts no Python: print it again after an update.
"""

import argparse
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .parser import COMMANDS, every_command

# What an argument is to be completed by, told by the word that stands for it in the help.
_FILES = ("CHECK", "DATA", "FILE", "OUT")
_FOLDERS = ("FOLDER",)


@dataclass(frozen=True)
class Argument:
    """An option, or an argument without a flag, and what may stand for its value."""

    flags: tuple[str, ...]
    summary: str
    has_value: bool
    values: tuple[str, ...]  # all that are allowed, where that can be listed
    place: str  # "files" or "folders" where the value is a path, else nothing
    metavar: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=list(_SHELLS), help="the shell that is to complete")


def run(args: argparse.Namespace) -> int:
    arguments = {
        name: [_argument(action) for action in parser._actions]
        for name, parser in every_command().items()
    }
    print("\n".join(_SHELLS[args.shell](arguments)))
    return 0


def _argument(action: argparse.Action) -> Argument:
    known: Iterable[Any] = action.choices or getattr(action.type, "names", None) or ()
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    place = "files" if metavar in _FILES else "folders" if metavar in _FOLDERS else ""
    return Argument(
        tuple(action.option_strings),
        " ".join((action.help or "").replace("%%", "%").split("\n")[0].split()),
        action.nargs != 0,
        tuple(map(str, known)),
        place,
        metavar,
    )


def _bash(commands: dict[str, list[Argument]]) -> Iterator[str]:
    """Works from bash 3.2 on, which macOS has."""
    yield "_relaxjax() {"
    yield "    local IFS=$'\\n' word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}"
    yield "    COMPREPLY=()"
    yield "    if ((COMP_CWORD == 1)); then"
    yield f"        {_bash_words([*COMMANDS, '--help', '--version'])}"
    yield "        return"
    yield "    fi"
    yield '    case "${COMP_WORDS[1]} $before" in'
    for name, arguments in commands.items():
        for argument in arguments:
            if argument.flags and argument.has_value:
                patterns = " | ".join(f'"{name} {flag}"' for flag in argument.flags)
                yield f"        {patterns}) {_bash_value(argument)}; return ;;"
    yield "    esac"
    yield '    case "${COMP_WORDS[1]}" in'
    for name, arguments in commands.items():
        flags = [flag for argument in arguments for flag in argument.flags]
        rest = [argument for argument in arguments if not argument.flags]
        yield f"        {name})"
        yield f"            if [[ $word == -* ]]; then {_bash_words(flags)}"
        yield f"            else {'; '.join(map(_bash_value, rest)) or ':'}; fi ;;"
    yield "    esac"
    yield "}"
    yield "complete -F _relaxjax relaxjax"


def _bash_words(words: list[str]) -> str:
    listed = "\\n".join(words)
    return f"COMPREPLY=($(compgen -W $'{listed}' -- \"$word\"))"


def _bash_value(argument: Argument) -> str:
    if argument.values:
        return _bash_words(list(argument.values))
    if not argument.place:
        return ":"
    kind = "-f" if argument.place == "files" else "-d"
    named = "compopt -o filenames 2>/dev/null"
    return f'{named}; COMPREPLY=($(compgen {kind} -- "$word"))'


def _zsh(commands: dict[str, list[Argument]]) -> Iterator[str]:
    yield "#compdef relaxjax"
    yield "_relaxjax() {"
    yield "    local context state state_descr line"
    yield "    typeset -A opt_args"
    yield "    if ((CURRENT == 2)); then"
    yield "        local -a commands=("
    for name, summary in COMMANDS.items():
        yield f"            {shlex.quote(f'{name}:{summary}')}"
    yield "        )"
    yield "        _describe command commands"
    yield "        return"
    yield "    fi"
    yield "    local command=$words[2]"
    yield "    shift words; ((CURRENT--))"
    yield "    case $command in"
    for name, arguments in commands.items():
        yield f"        {name})"
        yield "            _arguments \\"
        yield from (f"                {spec} \\" for spec in map(_zsh_spec, arguments))
        yield "            ;;"
    yield "    esac"
    yield "}"
    yield "compdef _relaxjax relaxjax"


def _zsh_spec(argument: Argument) -> str:
    actions = {"files": "_files", "folders": "_files -/", "": " "}
    action = f"({' '.join(argument.values)})" if argument.values else actions[argument.place]
    value = f":{_zsh_text(argument.metavar)}:{action}"
    if not argument.flags:
        return shlex.quote(f"*{value}")
    ending = value if argument.has_value else ""
    text = shlex.quote(f"[{_zsh_text(argument.summary)}]{ending}")
    flags = ",".join(argument.flags)
    return f"'*'{flags if len(argument.flags) == 1 else f'{{{flags}}}'}{text}"


def _zsh_text(text: str) -> str:
    for sign in "\\[]:":
        text = text.replace(sign, f"\\{sign}")
    return text


def _fish(commands: dict[str, list[Argument]]) -> Iterator[str]:
    for name, summary in COMMANDS.items():
        yield f"complete -c relaxjax -f -n __fish_use_subcommand -a {name} -d {_fish_text(summary)}"
    for name, arguments in commands.items():
        start = f"complete -c relaxjax -n '__fish_seen_subcommand_from {name}'"
        for argument in arguments:
            yield f"{start} {_fish_spec(argument)}"


def _fish_spec(argument: Argument) -> str:
    paths = {"files": "-F", "folders": "-f -a '(__fish_complete_directories)'", "": "-f"}
    value = f"-f -a {_fish_text(' '.join(argument.values))}"
    offered = value if argument.values else paths[argument.place]
    if not argument.flags:
        return offered
    flags = " ".join(
        f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in argument.flags
    )
    ending = f" -r {offered}" if argument.has_value else ""
    return f"{flags} -d {_fish_text(argument.summary)}{ending}"


def _fish_text(text: str) -> str:
    """Fish knows two escapes inside single quotes, and not those of other shells."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
