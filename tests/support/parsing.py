"""Modules from script text, for tests."""

from textwrap import dedent, indent
from typing import Any

from relaxjax import Function, IRModule, from_source


def parse_module(text: str) -> IRModule:
    """The module that a text defines."""
    module = from_source(text)
    assert isinstance(module, IRModule)
    return module


def parse_functions(text: str) -> IRModule:
    """A module of the functions that a text defines, written without the class round them."""
    lines = "\n".join(f"    {line}" for line in dedent(text).strip("\n").splitlines())
    return parse_module(f"@I.ir_module\nclass Module:\n{lines}\n")


def parse_function(text: str) -> Function:
    """The one function that a text defines."""
    (function,) = parse_functions(text).relax_functions().values()
    return function


def parse_main(body: str, params: str = "", /, **types: Any) -> IRModule:
    """A module whose `main` has this body, of parameters as `main_text` takes them."""
    return parse_functions(main_text(body, params, **types))


def parse_flow(body: str, params: str = "", /, **types: Any) -> IRModule:
    """As `parse_main`, of one dataflow block: it gives what is returned, or else bound last."""
    return parse_main(_in_block(body), params, **types)


def parse_backbone(
    body: str, params: str = "", /, *, param_num: int, state_num: int = 0, **types: Any
) -> IRModule:
    """A model to be trained, as `parse_flow`: its parameters, and last its states, are counted."""
    text = main_text(_in_block(body), params, **types).replace("def main(", "def backbone(", 1)
    return parse_functions(text).with_attrs({"param_num": param_num, "state_num": state_num})


def main_text(body: str, params: str = "", /, **types: Any) -> str:
    """The text of a function `main`: its parameters as a text, or each by its type.

    A shape is the type of a tensor of float32.
    """
    told = {n: t if isinstance(t, str) else f'R.Tensor({t}, "float32")' for n, t in types.items()}
    listed = [params.strip().rstrip(","), *(f"{name}: {ty}" for name, ty in told.items())]
    head = f"@R.function\ndef main({', '.join(filter(None, listed))}):"
    return f"{head}\n{indent(dedent(body).strip(), '    ')}\n"


def _in_block(body: str) -> str:
    lines = dedent(body).strip().splitlines()
    if not lines[-1].startswith("return "):
        lines.append(f"return {lines[-1].partition(' = ')[0]}")
    *lines, result = lines
    block = [*lines, f"R.output({result.removeprefix('return').strip(' ()')})"]
    return "\n    ".join(["with R.dataflow():", *block]) + f"\n{result}"
