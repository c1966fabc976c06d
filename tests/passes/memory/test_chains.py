"""That no value is computed again from a long chain of others."""

from parsing import parse_functions

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Var
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType
from relaxjax.passes import EliminateCommonSubexpr, Gradient, LegalizeOps, Sequential
from relaxjax.passes.memory.chains import with_short_chains
from relaxjax.passes.memory.planning import Planner
from relaxjax.passes.memory.program import Program
from relaxjax.script import relax as R

MOD = parse_functions(
    """
    @R.function
    def main_adjoint(x: R.Tensor((64, 64), "float32"), w: R.Tensor((64, 64), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.matmul(a, w)
            c = R.matmul(b, w)
            d = R.matmul(c, w)
            e = R.matmul(d, w)
            a_mean = R.mean(a)
            ab = R.nn.relu(R.add(R.subtract(a, a_mean), b))
            abc = R.nn.relu(R.add(ab, c))
            abcd = R.nn.relu(R.add(abc, d))
            abcde = R.nn.relu(R.add(abcd, e))
            loss = R.sum(abcde)
            g = R.ones((64, 64), "float32")
            g_e = R.multiply(g, R.exp(abcde))
            g_d = R.multiply(g_e, R.exp(abcd))
            g_c = R.multiply(g_d, R.exp(abc))
            g_b = R.multiply(g_c, R.exp(ab))
            g_w = R.matmul(R.permute_dims(x), g_b)
            R.output(loss, g_w)
        return (loss, (g_w,))
    """
)
PROGRAM = Program.of(MOD["main_adjoint"], MOD, "main_adjoint")


def named(*names: str) -> frozenset[Var]:
    return frozenset(step.var for step in PROGRAM.forward if step.var.name in names)


def test_a_sum_of_more_than_three_is_kept() -> None:
    kept = named("a", "b", "c", "d", "e", "a_mean")
    more = with_short_chains(PROGRAM, kept)
    (sum_of_four,) = more - kept
    (relu,) = named("abcd")
    assert PROGRAM.step_of[relu].inputs == (sum_of_four,)


def test_what_is_small_beside_a_value_is_none_of_its_sources() -> None:
    kept = named("a", "b", "c", "a_mean", "abcd", "e")
    assert with_short_chains(PROGRAM, kept) == kept


def test_the_policy_free_keeps_chains_short() -> None:
    layers = range(8)
    wide = Var("wide", TensorType((64, 1024), "float32"))
    weights = [Var(f"w{i}", TensorType((64, 64), "float32")) for i in layers]
    x = Var("x", TensorType((256, 64), "float32"))
    builder = BlockBuilder()
    with builder.function("main", [x, *weights, wide]):
        with builder.dataflow():
            total = builder.emit(R.tanh(x))
            for weight in weights:
                product = builder.emit(R.matmul(R.nn.relu(total), weight))
                total = builder.emit(R.add(total, R.tanh(product)))
            loss = builder.emit_output(R.sum(R.tanh(R.tanh(R.matmul(total, wide)))))
        builder.emit_func_output(loss)
    mod = Sequential([Gradient("main"), LegalizeOps(), EliminateCommonSubexpr()])(builder.get())
    planner = Planner(Program.of(mod["main_adjoint"], mod, "main_adjoint"))
    assert planner.free is not planner.none
    steps = [step for step in planner.program.forward if step.var in planner.free.kept]
    sums = [step for step in steps if step.op is get_op("lax.add")]
    assert len(sums) == 2  # of eight
