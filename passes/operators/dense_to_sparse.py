"""Dense layers computed from the blocks of their weights that are not zero."""

from collections.abc import Sequence

from relaxjax.ir.builder import make_function
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.device_mesh import Placement
from relaxjax.ir.expand import expand_calls
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import known_dtype
from relaxjax.ir.types import TensorType
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.named_params import check_params

from .block_sparse import dense_uses, packed_names

Parts = tuple[Var, Var, Var]


@pass_factory(opt_level=0, kind="function")
def DenseToSparse(
    function: Function,
    mod: IRModule,
    weight_name: Sequence[str] = (),
    weight_shape: Sequence[Sequence[Sequence[int]]] = (),
) -> Function:
    """Compute dense layers from the blocks of the named weights that are not zero.

    `process_params` finds such weights and packs them: `weight_shape` holds for each the shapes of
    its blocks, of their columns, and of where the rows begin. Instead of a weight, which may
    be read as the right factor of matmuls only, the function takes these three as parameters. The
    matmuls become sparse_dense, which adds up products of blocks, or where blocks are small is
    computed by JAX's sparse matrices.
    """
    if len(weight_name) != len(weight_shape):
        raise ValueError(
            f"`weight_shape` must have the shapes of each of the {len(weight_name)} weights in "
            f"`weight_name`, found {len(weight_shape)}"
        )
    kind = "weight that is read as the right factor of matmuls of floats only"
    check_params("weight_name", weight_name, mod, dense_uses, kind, packed_names)
    shapes = dict(zip(weight_name, weight_shape, strict=True))
    chosen = {p: use for p, use in dense_uses(function).items() if p.name in shapes}
    if not chosen:
        return function
    parts = {param: _parts(param, shapes[param.name]) for param in chosen}
    weights = {var: parts[param] for param, use in chosen.items() for var in use.variables}
    params = [new for param in function.params for new in parts.get(param, (param,))]
    changed = expand_calls(function, lambda call: _sparse(call, weights))
    return remove_all_unused(
        make_function(
            params,
            changed.body,
            ret_ty=function.ret_ty,
            pure=function.pure,
            attrs=function.attrs,
            span=function.span,
        )
    )


def _parts(weight: Var, shapes: Sequence[Sequence[int]]) -> Parts:
    if len(shapes) != 3:
        raise ValueError(
            f"`weight_shape` must have three shapes for `{weight.name}`, of its blocks, their "
            f"columns, and where rows begin, found {len(shapes)}"
        )
    assert isinstance(weight.ty, TensorType)
    before = weight.ty.placement  # which has other dimensions: each device has all of the blocks
    place = None if before is None else Placement(before.mesh, (None,) * len(before.parts))
    types = [
        TensorType(shape, dtype, vdevice=weight.ty.vdevice, placement=place)
        for shape, dtype in zip(shapes, (weight.ty.dtype, "int32", "int32"), strict=True)
    ]
    data, indices, indptr = map(Var, packed_names(weight.name), types)
    return data, indices, indptr


def _sparse(call: Call, weights: dict[Var, Parts]) -> Expr | None:
    """The sparse form of a matmul with one of the weights."""
    weight = call.args[1] if call.op is get_op("relax.matmul") else None
    if not isinstance(weight, Var) or weight not in weights:
        return None
    out = get_op("relax.nn.sparse_dense")(call.args[0], *weights[weight])
    same = isinstance(out.ty, TensorType) and out.ty == replace(out.ty, dtype=known_dtype(call))
    return out if same else get_op("relax.astype")(out, known_dtype(call))
