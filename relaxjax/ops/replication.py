"""Along which axes of a mesh the devices that run a function may have different values.

Those that part an argument, to begin with. What depends on a value differs as that does, but what
all devices of a group get alike differs no more between them.
"""

from collections.abc import Sequence
from typing import TypeAlias

from relaxjax.ir.device_mesh import DeviceMesh
from relaxjax.ir.expr import Call, Expr, GlobalVar, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function, If, SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op
from relaxjax.ir.walk import free_vars, post_order

from .ccl import group_of
from .declare import OpError
from .local_view import placements_over

# Names of axes, for each field where a tuple is written out.
Axes: TypeAlias = "frozenset[str] | tuple[Axes, ...]"

_NONE: frozenset[str] = frozenset()


def check_alike(call: Call, mod: IRModule) -> None:
    """Refuse a call on each device of whose result a placement says that devices have it alike.

    They may not where nothing made it so: the whole would be one of several values then.
    """
    mesh = call.attrs["device_mesh"]
    given = placements_over(mesh, call.attrs["in_placements"])
    stated = placements_over(mesh, call.attrs["out_placements"])
    function = call.args[0]
    assert isinstance(function, GlobalVar)
    found = _Differing(mod, mesh).called(function, [frozenset(one.axes) for one in given])
    results = found if isinstance(found, tuple) else (found,) * len(stated)
    for index, (axes, placement) in enumerate(zip(results, stated, strict=True)):
        beyond = sorted(_joined(axes) - set(placement.axes))
        if beyond:
            raise OpError(
                f"devices along {', '.join(f'`{axis}`' for axis in beyond)} may have different "
                f'values of result {index} of `{function.name}`, but its placement "'
                f'{placement.text}" says that they have the same: part it along there, or make it '
                "the same, as by R.ccl.allreduce"
            )


class _Differing:
    """The axes of functions, each found once for the axes of its arguments."""

    def __init__(self, mod: IRModule, mesh: DeviceMesh) -> None:
        self.mod = mod
        self.mesh = mesh
        self.everywhere = frozenset(mesh.axes)
        self.found: dict[tuple[str, tuple[Axes, ...]], Axes] = {}

    def called(self, function: GlobalVar, given: Sequence[Axes]) -> Axes:
        key = function.name, tuple(given)
        if key not in self.found:
            self.found[key] = self.everywhere  # for one that calls itself
            body = self.mod[function.name]
            if isinstance(body, Function):
                env = dict(zip(body.params, given, strict=True))
                self.found[key] = self.sequence(body.body, env)
        return self.found[key]

    def sequence(self, seq: SeqExpr, env: dict[Var, Axes]) -> Axes:
        for binding in seq.bindings():
            env[binding.var] = self.of(binding.value, env)
        return self.of(seq.body, env)

    def of(self, expr: Expr, env: dict[Var, Axes]) -> Axes:
        match expr:
            case Var():
                return env.get(expr, _NONE)
            case Tuple(fields=fields):
                return tuple(self.of(field, env) for field in fields)
            case TupleGetItem(tuple_value=value, index=index):
                whole = self.of(value, env)
                return whole[index] if isinstance(whole, tuple) else whole
            case Call(op=Op() as op):
                return self.operator(expr, op, env)
            case Call(op=GlobalVar() as function):
                return self.called(function, [self.of(arg, env) for arg in expr.args])
            case Call():
                return self.everywhere
            case If():
                branches = (expr.true_branch, expr.false_branch)
                results = [self.sequence(branch, dict(env)) for branch in branches]
                return _joined((self.of(expr.cond, env), *results))
            case Function():
                return self.everywhere if self.tells(expr) else self.uses(expr, env)
            case SeqExpr():
                return self.sequence(expr, dict(env))
            case _:
                return _NONE

    def operator(self, call: Call, op: Op, env: dict[Var, Axes]) -> Axes:
        axes = _joined(tuple(self.of(arg, env) for arg in call.args))
        told = op.facts.get("communicates")
        if told is not None:
            group = set(group_of(call.attrs["mesh_axes"], self.mesh))
            return axes - group if told == "alike" else axes | group
        functions = [arg for arg in call.args if isinstance(arg, GlobalVar)]
        bodies = [self.mod[function.name] for function in functions]
        return self.everywhere if any(map(self.tells, bodies)) else axes

    def uses(self, function: Function, env: dict[Var, Axes]) -> frozenset[str]:
        return _joined(tuple(env.get(var, _NONE) for var in free_vars(function)))

    def tells(self, function: Expr) -> bool:
        """Whether devices tell each other something in a function, or in another that it names."""
        return any(
            isinstance(expr, GlobalVar) or (isinstance(expr, Op) and "communicates" in expr.facts)
            for expr in post_order(function)
        )


def _joined(axes: Axes) -> frozenset[str]:
    return axes if isinstance(axes, frozenset) else _NONE.union(*map(_joined, axes))
