"""A module as one file of Python that needs jax and numpy, and nothing else."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.derivatives import CUSTOM_FORWARD, CUSTOM_GRADIENT, CUSTOM_JVP, smooth_places
from relaxjax.ir.expr import Var
from relaxjax.ir.function import Function
from relaxjax.ir.identifiers import Identifiers
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import OPS
from relaxjax.ir.printer import print_lines
from relaxjax.ir.types import PrimType, ShapeType, TupleType, Type
from relaxjax.ir.uses import values_of
from relaxjax.ir.walk import all_vars, nested_bindings
from relaxjax.ir.wording import tuple_text
from relaxjax.lowering import own_rules
from relaxjax.lowering.interpreter import holds_tensors
from relaxjax.lowering.legalize import legalize
from relaxjax.lowering.selection import selected, with_called
from relaxjax.lowering.traits import calls_itself, compiles, needs_x64
from relaxjax.ops import plain_jax

from . import prelude
from .bodies import Body, Program
from .layout import INDENT, WIDTH, broken
from .literals import stored_text
from .writing import call

# The functions that a file takes along, by their names.
_HELPERS = {
    name: value for home in (prelude, plain_jax, own_rules) for name, value in vars(home).items()
    if inspect.isfunction(value) and value.__module__ == home.__name__
}  # fmt: skip
_RULES = {CUSTOM_GRADIENT: "gradient", CUSTOM_FORWARD: "forward", CUSTOM_JVP: "jvp"}
_OUTSIDE = {**prelude.STANDARD, **prelude.THIRD_PARTY}
_TYPE = re.compile(r"(\w+: )?R\.\w+\((?:[^()]|\([^()]*\))*\)|: |-> ")
_BUILTINS = ("complex", "float", "map", "max", "min", "tuple")


def to_python(mod: IRModule, functions: str | Sequence[str] | None = None) -> str:
    """`mod` as one file of plain JAX: it needs jax and numpy to run, and nothing else.

    Each function is a function of Python under its name, each binding a statement under the name of
    its variable. Calls are legalised first; the call that several statements come from stands above
    them as a comment. Symbolic dimensions are read off the arguments, a choice becomes `lax.cond`,
    a closure a function inside. Public functions are compiled by `jax.jit` when they are called.
    Functions with a derivative of their own have it there, too.

    Args:
        mod: the module.
        functions: the names of functions to write, with those that they call; all public ones
            unless it is given.
    """
    chosen = selected(mod, functions)
    needed = with_called(mod, chosen, derivatives=True)
    originals = {name: _normal(f) for name, f in needed.relax_functions().items()}
    waiting = {name: op.lower for name, op in OPS.items() if "waits" in op.facts and op.lower}
    legal = legalize(needed.with_functions(originals), customize_map=waiting)
    program = _program(originals)
    written = [_function(legal, name, program, name in chosen) for name in originals]
    if rules := [line for f in originals.items() for line in _rules(*f, program.names)]:
        written.append(["# Functions that have a derivative of their own.", *rules])
    return _file(originals, program, "\n\n\n".join("\n".join(lines) for lines in written))


def _rules(name: str, function: Function, names: Mapping[str, str]) -> list[str]:
    """What gives a function its own derivative, if it has one, once all functions are there."""
    rules = {
        rule: names[function.attrs[attr]] for attr, rule in _RULES.items() if attr in function.attrs
    }
    if not rules:
        return []
    given = [f"{rule}={by}" for rule, by in rules.items()]
    own = names[name]
    smooth = str(smooth_places(function))
    return broken(f"{own} = {call('with_own_rules', own, smooth, *given)}")


def _normal(function: Function) -> Function:
    """The function with nested calls bound to variables; itself if there are none."""
    builder = BlockBuilder()
    with builder.scope(taken=[var.name for var in all_vars(function)]):
        normal = builder.normalize(function)
    assert isinstance(normal, Function)
    return normal


def _program(originals: Mapping[str, Function]) -> Program:
    identifiers = Identifiers((*_OUTSIDE, *_HELPERS, *_BUILTINS))
    names = {name: identifiers.unique(name) for name in originals}
    taken = frozenset((*names.values(), *_OUTSIDE, *_HELPERS, *_BUILTINS))
    origins = values_of(b for f in originals.values() for b in nested_bindings(f))
    return Program(names, taken, origins)


def _function(mod: IRModule, name: str, program: Program, public: bool) -> list[str]:
    """A function of the module, with what it is decorated with."""
    function: Function = mod[name]
    body = Body(program, name, traced=not calls_itself(mod, name))
    params = [body.var(param) for param in function.params]
    head = broken(f"def {program.names[name]}({', '.join(params)}):")
    if not public:
        return [*head, *body.statements(function, INDENT)]
    static = [param.ty for param in function.params if not holds_tensors(param.ty)]
    jitted = compiles(mod, name) and all(map(_is_static, static))
    lines = ["@with_x64"] if needs_x64(mod, name) else []
    if jitted:
        lines += _jit([n for n, p in zip(params, function.params, strict=True) if p.ty in static])
    first = [] if jitted else _as_arrays(function.params, params)
    return [*lines, *head, *first, *body.statements(function, INDENT, checked=True)]


def _is_static(ty: Type | None) -> bool:
    """Whether a value of a type can be part of a compiled program; a function runs outside."""
    if isinstance(ty, TupleType):
        return all(map(_is_static, ty.fields))
    return isinstance(ty, ShapeType | PrimType)


def _jit(static: list[str]) -> list[str]:
    if not static:
        return ["@jax.jit"]
    names = ", ".join(f'"{name}"' for name in static)
    first, *rest = broken(f"_partial(jax.jit, static_argnames=[{names}])")
    return [first.replace("_", "@", 1), *rest]  # a name takes the room of the sign


def _as_arrays(params: Sequence[Var], names: Sequence[str]) -> list[str]:
    """What makes arrays of JAX's of the arguments: what runs without `jax.jit` may be given any."""
    tensors = [n for n, p in zip(names, params, strict=True) if holds_tensors(p.ty)]
    if not tensors:
        return []
    values = tensors[0] if len(tensors) == 1 else tuple_text(tensors)
    statement = f"{', '.join(tensors)} = {call('jax.tree.map', 'jnp.asarray', values)}"
    return broken(statement, INDENT)


def _file(originals: Mapping[str, Function], program: Program, functions: str) -> str:
    stored = [stored_text(name, data) for name, data in program.stored]
    data = "\n".join(["# Constants, by their bytes.", *stored]) if stored else ""
    code = [part for part in (functions, data) if part]
    helpers = _needed_helpers("\n".join(code))
    code = [*(inspect.getsource(_HELPERS[name]).rstrip() for name in helpers), *code]
    text = "\n\n\n".join(code)
    head = "\n\n".join([_docstring(originals, program), *_imports(_names_in(text))])
    return f"{head}\n\n\n{text}\n"


def _docstring(originals: Mapping[str, Function], program: Program) -> str:
    """What the file is, and the heads of its functions as the script has them."""
    lines = ['"""Functions of a Relax program as plain JAX: only jax and numpy are needed.', ""]
    for name, function in originals.items():
        printed, places = print_lines(function, show_meta=False)
        head = re.sub(r"^def \w+", f"def {program.names[name]}", printed[places[id(function)]])
        lines += _filled(head.removesuffix(":"))
    return "\n".join([*lines, '"""'])


def _filled(head: str) -> list[str]:
    """The head of a function in lines that break between types only."""
    kept = _TYPE.sub(lambda found: found[0].replace(" ", "\0"), head)
    lines = textwrap.wrap(kept, WIDTH, subsequent_indent=INDENT, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def _needed_helpers(text: str) -> list[str]:
    """The functions of the prelude that a text calls, and those that they call in their turn."""
    needed: set[str] = set()
    todo = _names_in(text) & _HELPERS.keys()
    while todo:
        needed |= todo
        sources = "\n".join(inspect.getsource(_HELPERS[name]) for name in todo)
        todo = (_names_in(sources) & _HELPERS.keys()) - needed
    return [name for name in _HELPERS if name in needed]


def _names_in(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def _imports(names: Iterable[str]) -> Iterator[str]:
    """The imports that a text with these names needs, the standard library's first."""
    used = set(names)
    for table in (prelude.STANDARD, prelude.THIRD_PARTY):
        wanted = {name: place for name, place in table.items() if name in used}
        plain = [
            f"import {module}" if name == module else f"import {module} as {name}"
            for name, (module, part) in wanted.items()
            if part is None
        ]
        modules = dict.fromkeys(module for module, part in wanted.values() if part is not None)
        parts = [
            f"from {module} import {', '.join(p for m, p in wanted.values() if m == module and p)}"
            for module in modules
        ]
        if plain or parts:
            yield "\n".join([*plain, *parts])
