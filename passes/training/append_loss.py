"""Joining a backbone and a loss into one function."""

import warnings
from collections.abc import Iterator, Mapping, Sequence

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.blocks import tidy_blocks
from relaxjax.ir.builder import make_function
from relaxjax.ir.dims import Dim, SymbolicVar
from relaxjax.ir.expr import Call, Expr, GlobalVar, Tuple, Var
from relaxjax.ir.function import Function, SeqExpr
from relaxjax.ir.infer import dims_told
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.module import IRModule, name_of
from relaxjax.ir.op import operator_name
from relaxjax.ir.renew import hide_unused_outputs, renew, substitute_symbols
from relaxjax.ir.tuples import fields_or_self
from relaxjax.ir.types import TensorType, TupleType
from relaxjax.ir.walk import definable_symbols, substitute
from relaxjax.passes.infrastructure.base import pass_factory

from .prepare_backbone import with_written_outputs

# By what a model ends in, what a loss of scores applies to them, and what does not do it again.
_AGAIN = {
    "relax.nn.softmax": ("relax.nn.log_softmax", "write R.nn.log_softmax there and take NLLLoss"),
    "relax.sigmoid": ("relax.nn.softplus", "take BCELoss"),
}

# By file, what Python has warned of there, so that it says the same once.
_WARNED: dict[str, dict[str | tuple[str, type[Warning], int], int]] = {}


@pass_factory(opt_level=0)
def AppendLoss(
    mod: IRModule,
    func_name: str | GlobalVar,
    loss_function: Function,
    num_backbone_outputs: int = 1,
    new_func_name: str | None = None,
) -> IRModule:
    """Add a function that applies a loss to the first outputs of a backbone.

    Its parameters are those of the backbone, then those of the loss that are no backbone outputs;
    it returns the loss, or the loss and the remaining outputs. Symbolic dimensions of the loss
    take the backbone's; one that only stands in such as `2 * n` must be the very same there. Its
    name is `<func_name>_loss` unless `new_func_name` says otherwise.
    """
    name = name_of(func_name)
    new_name = new_func_name or f"{name}_loss"
    backbone, renewed = renew(mod[name])
    symbols = {one: new for old in renewed.items() for one, new in _told_symbols(*old)}
    loss = _in_terms_of(symbols, renew(loss_function)[0])
    if not any(isinstance(param.ty, TupleType) for param in loss.params[:1]):
        backbone = with_written_outputs(backbone)
    appended = _append(backbone, loss, num_backbone_outputs)
    attrs = Attrs(backbone.attrs, global_symbol=new_name)
    public = make_function(appended.params, appended.body, pure=appended.pure, attrs=attrs)
    return mod.with_function(new_name, hide_unused_outputs(public))


def _told_symbols(old: Var, new: Var) -> Iterator[tuple[SymbolicVar, SymbolicVar]]:
    """The dimensions that a variable tells, and what they are called in its copy."""
    return zip(definable_symbols(old.ty), definable_symbols(new.ty), strict=True)


def _in_terms_of(symbols: Mapping[SymbolicVar, Dim], loss: Function) -> Function:
    changed = substitute_symbols(loss, symbols)
    assert isinstance(changed, Function)
    return changed


def _append(backbone: Function, loss: Function, count: int) -> Function:
    outputs = _outputs(backbone)
    if not 0 < count <= min(len(outputs), len(loss.params)):
        raise ValueError(
            f"`num_backbone_outputs` must be in [1, {min(len(outputs), len(loss.params))}]: the "
            f"backbone has {len(outputs)} outputs, the loss {len(loss.params)} parameters; "
            f"found {count}"
        )
    loss = _with_symbols_of(outputs[:count], loss)
    result = loss.body.body
    if not isinstance(result, Var) or not isinstance(result.ty, TensorType) or result.ty.ndim != 0:
        raise ValueError(
            f"the loss function must return one scalar, but `{result}` is of type {result.ty}: "
            'reduce it, as losses of this package do with reduction="mean" or "sum"'
        )
    _warn_of_normalizing_twice(backbone, outputs[0], loss)
    consumed = dict(zip(loss.params, outputs[:count], strict=False))
    blocks = tidy_blocks((*backbone.body.blocks, *substitute(loss, consumed).body.blocks))
    rest = outputs[count:]
    body = SeqExpr(blocks, Tuple((result, *rest)) if rest else result)
    params = (*backbone.params, *loss.params[count:])
    return make_function(params, body, pure=backbone.pure and loss.pure)


def _with_symbols_of(outputs: Sequence[Expr], loss: Function) -> Function:
    """The loss in terms of the backbone's dimensions, its first parameters' types checked."""
    changed = _in_terms_of(dims_told(loss.params[: len(outputs)], outputs), loss)
    for index, (param, output) in enumerate(zip(changed.params, outputs, strict=False)):
        if fits(output.ty, param.ty) is not Fit.ALWAYS:
            raise ValueError(
                f"output {index} of the backbone is of type {output.ty}, but the parameter "
                f"`{param.name}` of the loss function is of type {param.ty}"
            )
    return changed


def _outputs(backbone: Function) -> tuple[Expr, ...]:
    result = backbone.body.body
    outputs = fields_or_self(result)
    for output in outputs:
        if not isinstance(output, Var):
            raise ValueError(
                f"the backbone must return a variable or a tuple of variables, found `{result}`"
            )
    return outputs


def _warn_of_normalizing_twice(backbone: Function, output: Expr, loss: Function) -> None:
    """Warn where a softmax or a sigmoid stands before a loss of scores: it learns, but little."""
    ending = next((b for b in backbone.body.bindings() if b.var is output), None)
    name = operator_name(ending.value) if ending is not None else None
    if ending is None or name not in _AGAIN or not loss.params:
        return
    again, instead = _AGAIN[name]
    if again not in _applied(loss):
        return
    short = name.rpartition(".")[2]
    message = (
        f"the model ends in a {short}, `{ending.var.name}`, and the loss `{loss.global_symbol}` "
        f"takes scores, of which it computes the {short} itself: leave that of the model out, or "
        f"{instead}"
    )
    span = ending.value.span or ending.span
    if span is None:
        warnings.warn(message, stacklevel=2)
    else:
        warned = _WARNED.setdefault(span.file, {})
        warnings.warn_explicit(message, UserWarning, span.file, span.line, registry=warned)


def _applied(loss: Function) -> Iterator[str]:
    """The operators that a loss applies to its first argument, or to that turned in sign."""
    same: set[Var] = {loss.params[0]}
    for binding in loss.body.bindings():
        name = operator_name(binding.value)
        if name is None or not isinstance(binding.value, Call) or binding.value.args[0] not in same:
            continue
        if name == "relax.negative":
            same.add(binding.var)
        yield name
