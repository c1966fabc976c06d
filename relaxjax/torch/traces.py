"""What the stack of an exported operator tells: which code of PyTorch's ran it."""

import linecache
import re

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in (\S+)(?:\n(?! *File ") *(.*))?')
# The line of torch.utils.checkpoint that runs a region by use_reentrant=True.
_REENTRANT = re.compile(
    r"utils[/\\]checkpoint\.py\", line \d+, in forward\n\s*outputs = run_function\("
)
# The line that runs the `forward` of a torch.autograd.Function where a program is strict.
_FUNCTION = re.compile(r"_functorch[/\\]autograd_function\.py\"")
# What export runs itself; graphs that it has made, as those of branches, have no file.
_OF_EXPORT = re.compile(r"torch[/\\]_dynamo[/\\]|^<eval_with_key>")
_CALLS_FORWARD = re.compile(r"(?<!def )\bforward\b")
_DEFINES_FORWARD = re.compile(r"\s*def forward\b")


def is_reentrant(trace: str) -> bool:
    return bool(_REENTRANT.search(trace))


def is_of_function(trace: str, modules: str) -> bool:
    """Whether an operator is of the `forward` of a torch.autograd.Function.

    A module that is called has at most one frame `forward`: of more frames than modules, one is a
    function's. Those that are called by the name `forward`, as `super().forward(x)`, do not count.
    Modules that are no part of the model are not among `modules`: their `forward` is not static,
    where its text is at hand.
    """
    if _FUNCTION.search(trace):
        return True
    if not modules:
        return False
    frames = [one for one in _FRAME.findall(trace) if not _OF_EXPORT.search(one[0])]
    callers = ["", *(code for *_, code in frames)]
    places = [
        (file, int(line))
        for caller, (file, line, name, _) in zip(callers, frames, strict=False)
        if name == "forward" and not _CALLS_FORWARD.search(caller)
    ]
    return len(places) > len(modules.split(";")) and any(_may_be_static(*one) for one in places)


def _may_be_static(file: str, line: int) -> bool:
    """Whether the `forward` around a line is a static method, or its text is not at hand."""
    lines = linecache.getlines(file)[:line]
    while lines and not _DEFINES_FORWARD.match(lines[-1]):
        lines.pop()
    if not lines:
        return True
    lines.pop()
    while lines and lines[-1].lstrip().startswith("@"):
        if "staticmethod" in lines.pop():
            return True
    return False
