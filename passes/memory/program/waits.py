"""When the backward part is far enough for something to be computed."""

from relaxjax.ir.expr import Var
from relaxjax.ir.function import Function
from relaxjax.ir.tensor_types import has_floats
from relaxjax.ir.types import TensorType

from .program import Program
from .step import Step, is_write, size_of

# By how many steps something can be early without mattering.
_EARLY = 8
# And by how many that others are not computed inside of.
_EARLY_KERNELS = 2
# How much smaller than a value must be what waits for it.
_LESS = 4
# The bytes of a gradient for which there is room in no cache beside others.
_LARGE = 256 * 1024
# The bytes of random bits, of which fewer are drawn as early as can be.
_LARGE_DRAW = 2**17


class Draws:
    """Which product of the forward part random numbers wait for, such as those of a dropout.

    A key is all that they are made of. A compiler would draw those of all layers at first, and keep
    eight bytes of random bits for each number until its layer. Products, and convolutions that read
    tensors in an order of their own, are in memory: to wait for them stores nothing more.
    """

    def __init__(self) -> None:
        self.latest: Var | None = None

    def pass_by(self, step: Step) -> None:
        """Count a step among those before."""
        if (step.is_product or step.layouts) and has_floats(step.var.ty):
            self.latest = step.var

    def moment(self, step: Step) -> Var | None:
        """What a step waits for, if it draws many numbers."""
        return self.latest if step.drawn_bytes >= _LARGE_DRAW else None


class Waits:
    """Which value of the backward part a step waits for: it tells that what is before is done."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.latest: Var | None = None  # of those so far, what lies behind most steps
        self.gradient: Var | None = None  # the last of those that an update takes
        # What is computed inside of others from padded values. What waits for it reads it, too, and
        # XLA would then store each of the padded values, which may be the many terms of a sum.
        self.padded: set[Var] = set()

    def pass_by(self, step: Step) -> None:
        """Count a step among those before."""
        inside = step.pointwise or step.is_view
        if inside and (step.is_padded or not self.padded.isdisjoint(step.inputs)):
            self.padded.add(step.var)
            return
        depth = self.program.depth
        if has_floats(step.var.ty) and depth[step.var] >= depth.get(self.latest, 0):
            self.latest = step.var
        if step.var in self.program.gradients and has_floats(step.var.ty):
            self.gradient = step.var

    def if_alone(self, step: Step) -> Var | None:
        """What a large gradient waits for that is written into room which XLA makes at once.

        Of a table's gradient little has to be computed, so many of them would be there before the
        first update. Where each is updated before the next, it is read from a cache, too.
        """
        if not (step.is_written and step.size >= _LARGE):
            return None
        return self.if_early(step) if step.var in self.program.updated_alone else None

    def if_early(self, step: Step) -> Var | None:
        """What a step had better wait for because nothing that uses it can be computed soon.

        A compiler that computes what it can as early as it can keeps the value until then. Large
        gradients of small values come one after the other, each when the one before can be used,
        and there is no room for what is written into before it is written.
        """
        if step.pure and step.var in self.program.gradients and _is_expanded(step):
            return self.latest if self.gradient is None else self.gradient
        if step.pure and step.is_written and _is_expanded(step):
            return self.latest
        depth, users = self.program.depth, self.program.users.get(step.var, ())
        if not (step.pointwise and step.pure and users) or step.var in self.program.results:
            return None
        soonest = min(depth[user.var] for user in users)
        if soonest < depth[step.var] + _EARLY or not (step.is_moved or _is_expanded(step)):
            return None
        kernels = self.program.kernel_depth
        if min(kernels[user.var] for user in users) < kernels[step.var] + _EARLY_KERNELS:
            return None
        latest = self.latest
        is_past = latest is not None and depth[latest] > depth[step.var] + _EARLY // 2
        return latest if is_past else None


def _is_expanded(step: Step) -> bool:
    """Whether the smallest tensor that it is computed of is much smaller than it."""
    inputs = [size_of(var) for var in step.inputs if isinstance(var.ty, TensorType)]
    return min(inputs, default=step.size) * _LESS <= step.size


def has_large_writes(function: Function) -> bool:
    """Whether there may be gradients that wait for each other, as `if_alone` says."""
    bindings = function.body.bindings()
    return any(is_write(one.value) and size_of(one.var) >= _LARGE for one in bindings)
