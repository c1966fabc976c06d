"""Networks of convolutions with the channels of their images last, where that is quicker."""

from collections.abc import Callable

from relaxjax.ir.dims import Dim
from relaxjax.ir.expr import Call
from relaxjax.ir.function import Function
from relaxjax.ir.layout import Relayout
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import post_order
from relaxjax.lowering.target import Target, platform_of
from relaxjax.ops.platform import chosen_platform
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.structure.inline import inlined

from .convert_layout import Layouts, chosen, transposed
from .planning import size
from .rearrange import rearranged

# What it is for.
CONVOLUTIONS = ("relax.nn.conv2d", "relax.nn.conv2d_transpose")
# Of fewer channels, one place after the other is slower than one row after the other.
_MANY = 16


@pass_factory(opt_level=0)
def ChannelsLast(
    mod: IRModule, target: Target | None = None, kernel_layout: str = "default"
) -> IRModule:
    """Compute convolutions of images with their channels last, where a CPU is quicker so.

    It belongs before Gradient, so that the backward program has that layout too. Images are
    rearranged at the inputs and outputs of a function. Parameters and results keep their shapes,
    and ConvertLayout explains what happens between. Kernels keep their layouts, or get that of
    `kernel_layout`: XLA's CPU reads "HWIO" without a copy, if the parameters are stored so.

    It changes convolutions that have 16 channels or more on both sides, and inlines private
    functions with such ones. A function stays as it is where rearranging would move as many
    elements as these convolutions read and write. The module stays as it is unless `target`, by
    default what JAX runs on, is a CPU.
    """
    if (chosen_platform() if target is None else platform_of(target)) != "cpu":
        return mod
    names = [name for name, f in mod.relax_functions().items() if _worth_it(f)]
    if not names:
        return mod
    private = [name for name in names if mod.relax_functions()[name].global_symbol is None]
    whole = inlined(mod, private)
    functions = {n: _converted(f, kernel_layout) for n, f in whole.relax_functions().items()}
    changed = whole.with_functions(functions)
    return mod if changed is whole else changed


def _converted(function: Function, kernel_layout: str) -> Function:
    changed = rearranged(function, _choice("default"), transposed)
    more = _moved(changed) - _moved(function)
    touched = sum(size(call.args[0]) + size(call) for call in _worth_it(function))
    if more >= touched:
        return function
    if kernel_layout == "default":
        return changed
    return rearranged(function, _choice(kernel_layout), transposed)


def _choice(kernel_layout: str) -> Callable[[Call], Relayout | None]:
    """First layers too: of their few channels less is rearranged than of what comes out."""
    layouts: Layouts = dict.fromkeys(CONVOLUTIONS, ("NHWC", kernel_layout))

    def choose(call: Call) -> Relayout | None:
        is_meant = _is_elsewhere(call) and _is_many(*_channels(call)[1:])
        return chosen(call, layouts) if is_meant else None

    return choose


def _worth_it(function: Function) -> list[Call]:
    """The convolutions with many channels before and after, which lie elsewhere than last."""
    calls = [e for e in post_order(function) if isinstance(e, Call) and _is_elsewhere(e)]
    return [call for call in calls if _is_many(*_channels(call))]


def _is_elsewhere(call: Call) -> bool:
    """Whether a call is a convolution of images, and not one for a kernel's adjoint."""
    if not isinstance(call.op, Op) or call.op.name not in CONVOLUTIONS:
        return False
    layouts = call.attrs["data_layout"], call.attrs["out_layout"]
    return layouts[0].index("C") > layouts[0].index("N") and set(layouts) != {"NHWC"}


def _is_many(*channels: Dim | None) -> bool:
    return all(not isinstance(count, int) or count >= _MANY for count in channels)


def _channels(call: Call) -> list[Dim | None]:
    """Those of the data, and those of the result."""
    layouts = call.attrs["data_layout"], call.attrs["out_layout"]
    return [
        ty.dims[layout.index("C")] if isinstance(ty, TensorType) and ty.dims else None
        for ty, layout in zip((call.args[0].ty, call.ty), layouts, strict=True)
    ]


def _moved(function: Function) -> int:
    """How many elements are rearranged."""
    permute = get_op("relax.permute_dims")
    calls = (e for e in post_order(function) if isinstance(e, Call) and e.op is permute)
    return sum(map(size, calls))
