"""What passes made of a program, kept on disk for the next process that asks for the same.

A program is known by its whole text, with its names and the lines that it comes from, by the
options, and by all else that passes go by: the versions and the very code of what makes it, the
platform, and JAX's settings. What Python functions of the user's have a part in is not kept, since
their code may change without a sign.
"""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Constant, Expr, ExternFunc, np_dtype
from relaxjax.ir.function import Function, SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import OPS, Op
from relaxjax.ir.span import Span
from relaxjax.ir.walk import post_order
from relaxjax.ops.lax.prototypes import LEARNED

from .context import PassContext
from .kept_files import code, digest_of, kept_folder, read_kept, settings, write_kept
from .pause_gc import collector_paused
from .pickled_module import pickled, unpickled

LEAST_SECONDS = 0.25  # what is made in less is made again
MOST_CONSTANTS = 2**22  # bytes of the numbers in a program, which are a part of its text

_FORMAT = b"relaxjax kept program 2"
_FOLDER = "programs"


def kept_or_made(
    mod: IRModule, goes_by: Callable[[], Any], make: Callable[[], IRModule], zeros: str = ""
) -> tuple[IRModule, str]:
    """What `make` gives for a module, of the disk if it is there, and what it is known by.

    `goes_by` gives all that it depends on beside the module, as something whose `repr` tells it;
    None where nothing does: it is not kept then, and known by nothing. `zeros` is an attribute of
    the result with big constants of zeros.
    """
    with collector_paused():
        path = _path(mod, goes_by)
        if path is None:
            return make(), ""
        found = _read(path, zeros)
        if found is not None:
            return found, path.stem
        began = time.perf_counter()
        made = make()
        if time.perf_counter() - began >= LEAST_SECONDS:
            _write(path, made, zeros)
        return made, path.stem


def is_kept(known_as: str) -> bool:
    """Whether a file holds what is known as this, so that its text says it all."""
    folder = kept_folder(_FOLDER)
    return bool(known_as) and folder is not None and (folder / f"{known_as}.program").exists()


def text_of(mod: IRModule) -> tuple[str, Sequence[Any]]:
    """A module as its text, and what that leaves out: the lines, and whose derivatives they are."""
    beside: list[Any] = []
    for node in nodes_of(mod):
        beside.append(_place(node.span))
        if isinstance(node, SeqExpr):
            bindings = node.bindings()
            beside += [(_place(b.span), _place(b.var.span), b.derived_from) for b in bindings]
        elif isinstance(node, Function):
            beside += [_place(param.span) for param in node.params]
    return mod.script(), beside


def _place(span: Span | None) -> Any:
    return span and (span.file, span.line, span.column, span.end_line, span.end_column)


def _path(mod: IRModule, goes_by: Callable[[], Any]) -> Path | None:
    context = PassContext.current()
    if context.instruments or context.trace is not None or context.config or not code():
        return None  # passes that somebody watches are to run
    folder = kept_folder(_FOLDER)
    if folder is None or not is_ours(nodes_of(mod)):
        return None
    others = goes_by()
    if others is None:
        return None
    passes = context.opt_level, sorted(context.disabled_pass), sorted(context.required_pass)
    return folder / f"{digest_of((text_of(mod), others, passes, settings()))}.program"


def is_ours(nodes: Iterable[Expr]) -> bool:
    """Whether all that these name is of this package or of JAX, and their numbers are few."""
    numbers = 0
    for node in nodes:
        if isinstance(node, ExternFunc) or (isinstance(node, Op) and not _is_own(node)):
            return False
        numbers += node.data.nbytes if isinstance(node, Constant) else 0
    return numbers <= MOST_CONSTANTS


def _is_own(operator: Op) -> bool:
    module = getattr(operator.infer, "__module__", "")
    is_own = module.startswith("relaxjax.") and OPS.get(operator.name) is operator
    return is_own and operator.name.removeprefix("lax.") not in LEARNED


def nodes_of(mod: IRModule) -> Iterator[Expr]:
    for function in mod.functions.values():
        if isinstance(function, Function):
            yield from post_order(function)
        else:
            yield function


def _read(path: Path, zeros: str) -> IRModule | None:
    """What is kept in a file; one that holds no whole program is told, and written anew."""
    try:
        content = read_kept(path, _FORMAT)
        if content is None:
            return None
        return _with_zeros(unpickled(content), zeros)
    except Exception as error:  # a file of another version may make any constructor fail
        warnings.warn(
            f"{path} holds no program that can be read, so that it is made anew: {error!r}",
            stacklevel=2,
        )
        return None


def _write(path: Path, mod: IRModule, zeros: str) -> None:
    with suppress(TypeError):  # what has no form in a file is made anew each time
        write_kept(path, _FORMAT, pickled(_without_zeros(mod, zeros)))


def _without_zeros(mod: IRModule, name: str) -> IRModule:
    """The module whose constants in that attribute are shapes and dtypes where they are zeros."""
    held = mod.attrs.get(name)
    if held is None:
        return mod
    return mod.with_attr(name, tuple(map(_short, held)))


def _short(value: Any) -> Any:
    if not isinstance(value, Constant):
        return value
    if not are_zeros(value.data):
        return value
    return Attrs(zeros=value.data.shape, dtype=value.dtype)


def _with_zeros(mod: IRModule, name: str) -> IRModule:
    held = mod.attrs.get(name)
    return mod if held is None else mod.with_attr(name, tuple(map(_long, held)))


def _long(value: Any) -> Any:
    if not isinstance(value, Attrs):
        return value
    return zeros(value["zeros"], np_dtype(value["dtype"]))


def are_zeros(array: np.ndarray[Any, Any]) -> bool:
    """Whether all bits are zeros, which those of -0.0 are not."""
    return not np.ascontiguousarray(array).reshape(-1).view(np.uint8).any()


def zeros(shape: Sequence[int], dtype: Any) -> Constant:
    """A constant of zeros, which takes no memory as long as they are only read."""
    array = np.zeros(shape, dtype)
    array.flags.writeable = False  # else the constant would have a copy
    return Constant(array)
