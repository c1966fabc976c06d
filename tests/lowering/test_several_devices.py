"""Programs whose values are on several devices, run on several devices of the CPU."""

import jax
from parsing import parse_main
from several_devices import printed_lines

from relaxjax.lowering import build
from relaxjax.lowering.devices import devices_of

PROGRAM = '''
import jax
import numpy as np

from relaxjax.lowering import VirtualMachine, build
from relaxjax.passes import Gradient, GroupByVDevice, RealizeVDevice, RewriteAnnotatedOps
from relaxjax.script import from_source

TEXT = """
@I.ir_module
class Model:
    I.module_global_infos({"vdevice": [I.vdevice("llvm", 1), I.vdevice("llvm", 2)]})

    @R.function
    def main(
        x: R.Tensor((2, 3), "float32"),
        w: R.Tensor((3, 4), "float32"),
        v: R.Tensor((4, 2), "float32"),
    ) -> R.Tensor((), "float32"):
        with R.dataflow():
            x1 = R.hint_on_device(x, "llvm:1")
            h = R.matmul(x1, w)
            h1 = R.nn.relu(h)
            h2 = R.to_vdevice(h1, "llvm:2")
            o = R.matmul(h2, v)
            o1 = R.tanh(o)
            o2 = R.hint_on_device(o1, "llvm:3")
            s = R.sum(o2)
            R.output(s)
        return s
"""
model = from_source(TEXT)
rng = np.random.default_rng(0)
args = [rng.normal(size=shape).astype("float32") for shape in ((2, 3), (3, 4), (4, 2))]


def expected(x, w, v):
    return jax.numpy.tanh(jax.nn.relu(x @ w) @ v).sum()


value, gradients = jax.value_and_grad(expected, (0, 1, 2))(*args)
for made in (RealizeVDevice(), RewriteAnnotatedOps("llvm:0")):
    for passes in (lambda mod: mod, GroupByVDevice()):
        built = build(passes(Gradient("main")(made(model))))
        found, partials = VirtualMachine(built)["main_adjoint"](*args)
        np.testing.assert_allclose(found, value, rtol=1e-5)
        for one, other in zip(partials, gradients):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        print([array.device.id for array in (found, *partials)], built["main"](*args).device.id)
grouped = GroupByVDevice()(RealizeVDevice()(model))
groups = [f for name, f in grouped.relax_functions().items() if name != "main"]
print([len(list(group.body.bindings())) for group in groups])
run = build(grouped)["main"]
run(*args)
with jax.no_tracing():
    run(*args)
'''


def test_regions_on_several_devices() -> None:
    """What is realized stays where it is used; what is only annotated comes back."""
    assert printed_lines(PROGRAM, 4) == [
        "[3, 1, 1, 2] 3",
        "[3, 1, 1, 2] 3",
        "[0, 1, 0, 0] 0",
        "[0, 1, 0, 0] 0",
        "[2, 2]",
    ]


def test_devices_that_the_machine_does_not_have_are_left_out() -> None:
    mod = parse_main(
        'a = R.to_vdevice(p[0], "tpu:3")\nb = R.exp(a)\nreturn b',
        p='R.Tuple(R.Tensor((2,), "float32", "llvm:77"), R.Tensor((2,), "float32", "llvm"))',
    )
    assert devices_of(mod, "main") == {"llvm:0:global": jax.devices("cpu")[0]}
    assert build(mod)["main"].compiles


DEFAULT = """
import jax
import jax.numpy as jnp
import numpy as np
from relaxjax import IRModule
from relaxjax.lowering import VirtualMachine, build
from relaxjax.script import from_source

model = IRModule.from_expr(from_source('''
@R.function
def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("n",), "float32")):
    z = R.add(x, y)
    return z
'''))
first, second = jax.devices()
x = np.ones(3, "float32")


def where(run, *args):
    (device,) = run(*args).devices()
    return str(device)


before = build(model)
with jax.default_device(second):
    inside = build(model)
    made = jnp.ones(3)
    print(where(inside["main"], x, x), where(before["main"], x, x), where(before["main"], made, x))
print(where(inside["main"], x, x), where(before["main"], x, x))
jax.config.update("jax_default_device", second)
print(where(build(model)["main"], x, x), where(VirtualMachine(build(model))["main"], x, x))
print(where(build(model, "cpu:0")["main"], x, x), where(before["main"], x, x))
print(where(VirtualMachine(build(model), "cpu:0")["main"], x, x))
jax.config.update("jax_default_device", "cpu")
print(where(build(model)["main"], x, x))
"""


def test_a_module_runs_where_jax_puts_what_nobody_has_placed_when_it_is_built() -> None:
    """Or where it is told to run, whatever is JAX's default then."""
    assert printed_lines(DEFAULT, 2) == [
        "cpu:1 cpu:0 cpu:0",
        "cpu:1 cpu:0",
        "cpu:1 cpu:1",
        "cpu:0 cpu:0",
        "cpu:0",
        "cpu:0",
    ]
