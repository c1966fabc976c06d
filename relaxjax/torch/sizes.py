"""Sizes that torch writes as expressions of SymPy, read as dimensions; nothing is evaluated."""

import ast
from collections.abc import Callable, Mapping
from functools import reduce

from relaxjax.ir.builder import Names
from relaxjax.ir.dims import Dim, SymbolicVar, dim_max, dim_min, floordiv, mod

from .errors import TorchImportError


def _power(base: Dim, exponent: Dim) -> Dim:
    if not isinstance(exponent, int) or exponent < 0:
        raise TorchImportError(f"a size is {base} to the power of {exponent}")
    total: Dim = 1
    for _ in range(exponent):
        total = total * base
    return total


_FUNCTIONS: Mapping[str, Callable[[Dim, Dim], Dim]] = {
    "Add": lambda x, y: x + y,
    "Mul": lambda x, y: x * y,
    "Pow": _power,
    "FloorDiv": floordiv,
    "CleanDiv": floordiv,
    "Mod": mod,
    "PythonMod": mod,
    "Max": dim_max,
    "Min": dim_min,
}


class Sizes:
    """The symbols of a program as dimensions, each under a name of its own."""

    def __init__(self) -> None:
        self._names = Names()
        self.symbols: dict[str, SymbolicVar] = {}

    def dim(self, size: int | str) -> Dim:
        if isinstance(size, int):
            return size
        return self._read(ast.parse(size, mode="eval").body, size)

    def _read(self, node: ast.expr, text: str) -> Dim:
        match node:
            case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str() as name)]):
                return self._symbol(name)
            case ast.Call(func=ast.Name(id="Integer"), args=[value]):
                return self._read(value, text)
            case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
                return reduce(_FUNCTIONS[name], [self._read(one, text) for one in args])
            case ast.Constant(value=int() as number):
                return number
            case ast.UnaryOp(op=ast.USub(), operand=value):
                return -self._read(value, text)
        raise TorchImportError(f"a size is `{text}`, of which `{ast.unparse(node)}` is not read")

    def _symbol(self, name: str) -> SymbolicVar:
        if name not in self.symbols:
            self.symbols[name] = SymbolicVar(self._names.unique("n"))
        return self.symbols[name]
