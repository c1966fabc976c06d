"""A loop and the loop that goes back through it, as an adjoint has them."""

from parsing import parse_functions

from relaxjax import IRModule, from_source
from relaxjax.passes import CanonicalizeBindings, Gradient, SimplifyGradient
from relaxjax.passes.differentiation.gradient import function_of
from relaxjax.passes.memory.program.loop_pairs import loop_pairs

ADJOINT = "main_adjoint"


def adjoint() -> IRModule:
    mod = parse_functions("""
        @R.function
        def main(x: R.Tensor((2,), "float32"), ws: R.Tensor((3, 2), "float32")):
            @R.function
            def step(carry: R.Tensor((2,), "float32"), w: R.Tensor((2,), "float32")):
                h = R.sin(R.multiply(carry, w))
                return (h, ())
            out = R.scan(step, x, ws)
            loss = R.sum(out[0])
            return loss
        """)
    for one in (Gradient("main", lazy=True), SimplifyGradient(), CanonicalizeBindings()):
        mod = one(mod)
    return mod


def test_of_what_a_loop_back_gives_only_what_others_read_counts() -> None:
    mod = adjoint()
    (pair,) = loop_pairs(function_of(mod, ADJOINT))
    assert pair.read == ((0, 0), (1, 0))
    text = str(mod.script())
    first = f" = {pair.back.var.name}[0]\n"
    line = next(line for line in text.splitlines() if line.endswith(first.rstrip()))
    unread = line.replace(line.split(":")[0].strip(), "unread", 1)
    longer = from_source(text.replace(line, f"{line}\n{unread}"))
    (found,) = loop_pairs(function_of(longer, ADJOINT))
    assert found.read == pair.read
