"""A module of layers as a program: one function for each method that is exported."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import Expr, TupleGetItem, Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import ShapeType, TensorType, TupleType, Type
from relaxjax.tvm.scope import OutOfScopeNameError

from . import spec as specs
from .tensors import Parameter, Tensor, unwrap_nested

Named = list[tuple[str, Parameter]]


def export(
    module: Any, spec: Any, debug: bool = False, allow_extern: bool = False
) -> tuple[IRModule, Named]:
    """The methods of a module as functions, and the parameters that they take, by name."""
    if debug:
        raise OutOfScopeNameError(
            "`export_tvm(debug=True)` passes effects through a program, which a program here has "
            "not: `R.print` prints a value, and `Trainer.fit(check_numerics=True)` finds NaN"
        )
    if allow_extern:
        raise OutOfScopeNameError(
            "`export_tvm(allow_extern=True)` gives modules of foreign code, of which there are "
            "none here: a function of JAX or Python is called by `R.call_pure_packed`"
        )
    builder, parameters = BlockBuilder(), list(module.named_parameters())
    for name, method in specs.ModuleSpec.from_raw(spec, module).methods.items():
        _export(builder, name, method, parameters)
    return builder.get(), parameters


def _export(builder: BlockBuilder, name: str, method: specs.MethodSpec, parameters: Named) -> None:
    symbols: dict[str, SymbolicVar] = {}
    inputs = [
        Var(arg, _type(spec, symbols, arg))
        for arg, spec in zip(method.arg_names, method.arg_specs, strict=True)
    ]
    weights = [Var(path.replace(".", "_"), _of(p, symbols)) for path, p in parameters]
    given: Sequence[Var] = weights
    if method.param_mode == "packed":
        given = [Var("packed_params", TupleType(tuple(_known(var.ty) for var in weights)))]
    elif method.param_mode == "none":
        given = []
    with builder.function(name, [*inputs, *given], {"num_input": len(inputs)}):
        with builder.dataflow():
            values: Sequence[Expr] = weights
            if method.param_mode == "packed":
                fields = [TupleGetItem(given[0], place) for place in range(len(weights))]
                pairs = zip(fields, weights, strict=True)
                values = [builder.emit(field, var.name) for field, var in pairs]
            args = [_argument(builder, var, var.ty) for var in inputs]
            with _standing_for([p for _, p in parameters], values):
                result = builder.emit_output(unwrap_nested(method.method(*args)))
        builder.emit_func_output(result)


def _type(spec: Any, symbols: dict[str, SymbolicVar], name: str) -> Type:
    """The type of an argument; each name of a dimension is one symbol in a function."""
    match spec:
        case specs.Tensor(shape, dtype):
            return TensorType(tuple(_dim(dim, symbols) for dim in shape), dtype)
        case specs.Int():
            return ShapeType((_dim(name, symbols),))
        case specs.Tuple(_, elements):
            pairs = enumerate(elements)
            return TupleType(tuple(_type(one, symbols, f"{name}_{i}") for i, one in pairs))
    raise TypeError(f"there is no argument such as {spec!r}")


def _of(parameter: Parameter, symbols: dict[str, SymbolicVar]) -> TensorType:
    """The type of a parameter, whose symbols are those of the same names in the arguments."""
    shape = [dim.name if isinstance(dim, SymbolicVar) else dim for dim in parameter.shape]
    return TensorType(tuple(_dim(dim, symbols) for dim in shape), parameter.dtype)


def _dim(dim: Any, symbols: dict[str, SymbolicVar]) -> Any:
    return symbols.setdefault(dim, SymbolicVar(dim)) if isinstance(dim, str) else dim


def _known(ty: Type | None) -> Type:
    assert ty is not None
    return ty


def _argument(builder: BlockBuilder, value: Expr, ty: Type | None) -> Any:
    """What a method is given for a variable: Tensors, sizes, and lists of them."""
    if isinstance(ty, TensorType):
        return Tensor(_expr=value)
    if isinstance(ty, ShapeType):
        assert ty.values is not None
        return ty.values[0]
    assert isinstance(ty, TupleType)
    fields = list(map(builder.emit, value))
    return [_argument(builder, var, var.ty) for var in fields]


@contextmanager
def _standing_for(parameters: Sequence[Parameter], values: Sequence[Expr]) -> Iterator[None]:
    """While a method runs, its parameters stand for the variables of the function."""
    before = [
        parameter.stand_for(value) for parameter, value in zip(parameters, values, strict=True)
    ]
    try:
        yield
    finally:
        for parameter, value in zip(parameters, before, strict=True):
            parameter.stand_for(value)
