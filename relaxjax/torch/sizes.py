"""Sizes that torch writes as expressions of SymPy, read as dimensions; nothing is evaluated."""

import ast
from collections.abc import Callable, Iterable, Mapping
from functools import reduce

from relaxjax.ir.builder import Names
from relaxjax.ir.dim_variables import dim_vars, substitute_dim
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
        self._lines: dict[SymbolicVar, tuple[int, int]] = {}  # the factor and the offset
        self._given: dict[Dim, SymbolicVar] = {}  # what stands for a size of an input
        self._meanings: dict[SymbolicVar, Dim] = {}  # a symbol, by what stands for that
        self._found: dict[str, Dim] = {}  # a symbol that is no size of an input

    def settle(self, sizes: Iterable[int | str]) -> None:
        """Find the symbols that no input has as a size, such as h where one has 4 h rows.

        Only a size of an input is known when a program runs: its variable n stands for these rows,
        and h is n // 4.
        """
        dims = [self._dim(size) for size in sizes]
        for var in self.symbols.values():
            lines = ((dim, line) for dim in dims if (line := _line(dim, var)) is not None)
            told = None if var in dims else next(lines, None)
            if told is not None:
                dim, (factor, offset) = told
                self._lines[var], self._given[dim] = (factor, offset), var
                self._meanings[var] = floordiv(var - offset, factor)

    def dim(self, size: int | str) -> Dim:
        return substitute_dim(self._dim(size), self._meanings)

    def find(self, sizes: Iterable[int | str], found: Iterable[Dim]) -> None:
        """Take what a result is found to have for the symbols that first stand in its sizes.

        Such are sizes that PyTorch does not know, as of what a mask chooses, and are known here.
        """
        for size, dim in zip(sizes, found, strict=True):
            name = _lone_symbol(size)
            if name is not None and name not in self.symbols:
                self._found.setdefault(name, dim)

    def given(self, size: int | str) -> Dim:
        """A size of an input: a variable where that stands for it."""
        dim = self._dim(size)
        return self._given.get(dim, substitute_dim(dim, self._meanings))

    def extent(self, symbol: str, value: int | None) -> int | None:
        """What the variable of a symbol is where the symbol has this value."""
        factor, offset = self._lines.get(self.symbols[symbol], (1, 0))
        return None if value is None else factor * value + offset

    def _dim(self, size: int | str) -> Dim:
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

    def _symbol(self, name: str) -> Dim:
        if name in self._found:
            return self._found[name]
        if name not in self.symbols:
            self.symbols[name] = SymbolicVar(self._names.unique("n"))
        return self.symbols[name]


def _lone_symbol(size: int | str) -> str | None:
    if isinstance(size, int):
        return None
    match ast.parse(size, mode="eval").body:
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str() as name)]):
            return name
    return None


def _line(dim: Dim, var: SymbolicVar) -> tuple[int, int] | None:
    """The factor and the offset of a dimension that grows with this variable alone."""
    if dim_vars(dim) != (var,):
        return None
    offset, there = (substitute_dim(dim, {var: value}) for value in (0, 1))
    if not isinstance(offset, int) or not isinstance(there, int) or there <= offset:
        return None
    return (there - offset, offset) if dim == var * (there - offset) + offset else None
