"""Builders, pipelines and targets as programs for TVM use them."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_main

import relaxjax.tvm
from relaxjax.ir.function import BindingBlock, DataflowBlock, VarBinding
from relaxjax.tvm.ffi import Shape

tvm: Any = relaxjax.tvm  # whose names are those of the table
relax: Any = tvm.relax
R: Any = tvm.script.relax
TYPE = relax.TensorType((2, 3), "float32")
X = relax.Var("x", TYPE)
MODULE = parse_main("y = R.add(x, x)\nz = R.exp(y)\nreturn z", x=(2, 3))


# Builders


def test_values_are_normal_outside_of_functions() -> None:
    number = relax.Var("number", relax.PrimType("float32"))
    builder = relax.BlockBuilder()
    for call in (R.add(X, number), R.power(number, X), relax.Call(R.exp(X).op, [X])):
        assert builder.normalize(call).ty == TYPE
    assert builder.normalize(X) is X
    with builder.function("main", [X]):
        nested = builder.normalize(R.exp(R.sin(X)))
        assert isinstance(nested.args[0], relax.Var)
        builder.emit_func_output(nested)


def test_functions_are_opened_with_options_in_the_order_of_tvm() -> None:
    builder = relax.BlockBuilder()
    with builder.function("main", [X], {"kept": 1}, False, True):
        builder.emit_func_output(X)
    function = builder.get()["main"]
    assert (function.is_pure, function.global_symbol, function.attrs["kept"]) == (False, None, 1)


def test_bindings_that_are_normal_are_added() -> None:
    builder, var = relax.BlockBuilder(), relax.Var("v", TYPE)
    with builder.function("main", [X]):
        builder.emit_normalized(VarBinding(var, R.exp(X)))
        builder.emit_func_output(var)
    (binding,) = builder.get()["main"].body.bindings()
    assert binding.var is var


def test_scopes_without_a_function() -> None:
    builder = relax.BlockBuilder()
    with builder.testing_scope(def_vars=[tvm.tirx.Var("n", "int64")]):
        assert builder.emit(R.exp(X)).ty == TYPE
    builder.begin_scope([X])
    assert builder.emit(R.exp(X), "x").name == "x1"
    builder.end_scope()
    with pytest.raises(ValueError, match="no scope is open: call `begin_scope"):
        builder.end_scope()


@pytest.mark.parametrize(("open_block", "kind"), [("dataflow", DataflowBlock), ("binding", None)])
def test_blocks_by_hand(open_block: str, kind: type[BindingBlock] | None) -> None:
    builder = relax.BlockBuilder()
    for count in (0, 2):
        getattr(builder, f"_begin_{open_block}_block")()
        for _ in range(count):
            builder.emit(R.exp(X))
        block = builder._end_block()
        assert type(block) is (kind or BindingBlock)
        assert len(block.bindings) == count


def test_builders_write_no_kernels() -> None:
    with pytest.raises(AttributeError, match=r"`BlockBuilder\.emit_te` has no place in relaxjax"):
        relax.BlockBuilder().emit_te()
    with pytest.raises(AttributeError, match="`BlockBuilder` has no attribute `emitt`"):
        relax.BlockBuilder().emitt()


# What nodes hold, by the names of TVM


def test_what_is_given_by_a_name_is_read_by_it() -> None:
    assert relax.ExternFunc(global_symbol="f").global_symbol == "f"
    assert relax.VDevice("cuda", vdevice_id=1).vdevice_id == 1
    function = relax.FuncType([TYPE], TYPE, purity=False)
    assert (function.purity, function.derive_func) == (False, None)
    any_one = relax.dpl.wildcard()
    assert relax.dpl.ExternFuncPattern("f").global_symbol == "f"
    assert relax.dpl.TupleGetItemPattern(any_one, 0).tuple is any_one
    assert (~any_one).reject is any_one
    assert relax.dpl.PrimArrPattern([1, 2]).fields == [1, 2]


def test_questions_to_modules_operators_and_records() -> None:
    assert MODULE.with_attr("param_num", 4).get_attr("param_num") == 4
    assert MODULE.get_attr("param_num") is None
    exp = tvm.ir.Op.get("relax.exp")
    assert exp.has_attr("FPrimalGradient")
    assert not tvm.ir.Op.get("relax.make_closure").has_attr("FPrimalGradient")
    assert not exp.has_attr("TOpPattern")
    assert "relax.exp" in tvm.ir.Op.list_op_names()
    device = tvm.ir.VDevice("cuda")
    assert device.same_as(device)
    assert not device.same_as(tvm.ir.VDevice("cuda"))
    assert tuple(map(int, tvm.__version__.split(".")[:2])) >= (0, 27)


# Pipelines and targets


def test_default_pipelines() -> None:
    pipeline = relax.pipeline
    for made in (
        relax.get_default_pipeline(tvm.target.Target("llvm")),
        pipeline.default_build_pipeline(),
        pipeline.zero_pipeline(),
    ):
        assert relax.analysis.well_formed(made(MODULE))
    with pytest.raises(AttributeError, match=r"pipeline\.library_dispatch_passes` has no place"):
        pipeline.library_dispatch_passes()


def test_operators_are_spelt_out_but_for_some() -> None:
    legalize = relax.transform.LegalizeOps
    text = legalize(None, ["relax.exp"], enable_warning=True)(MODULE).script()
    assert ("R.exp" in text, "R.add" in text) == (True, False)
    custom = legalize(customize_map={"relax.exp": jnp.negative})(MODULE).script()
    assert "neg" in custom
    with pytest.raises(ValueError, match=r"kernels of TVM: give JAX functions .*customize_map="):
        legalize({"relax.add": lambda builder, call: call})


def test_targets_have_families_and_options() -> None:
    targets = {name: tvm.target.Target(name) for name in ("llvm -mcpu=generic", "cuda", "tpu")}
    assert [target.keys for target in targets.values()] == [["cpu"], ["cuda", "gpu"], ["tpu"]]
    assert [target.attrs for target in targets.values()] == [{"mcpu": "generic"}, {}, {}]


def test_the_target_that_is_entered() -> None:
    current = tvm.target.Target.current
    assert current() is None
    with tvm.target.Target("cuda"), tvm.target.Target("llvm") as inner:
        assert current() is inner
    with pytest.raises(ValueError, match=r"no target is entered: write `with tvm\.target"):
        current(allow_none=False)


# Optimizers


def test_states_of_optimizers_are_arrays_of_tvm() -> None:
    optimizers = tvm.relax.training.optimizer
    for made in (optimizers.SGD(0.1), optimizers.MomentumSGD(0.1, 0.9), optimizers.Adam(0.1)):
        bound = made.init(X)
        assert [state.numpy().shape for state in bound.state][:2] in ([()], [(), (2, 3)], [(), ()])
        vm = relax.VirtualMachine(relax.build(tvm.IRModule.from_expr(bound.get_function())))
        ones = np.ones((2, 3), "float32")
        _, bound.state = vm[bound.name]((ones,), (ones,), bound.state)
        assert bound.state[0].numpy() == 1


def test_shapes_are_arguments_of_a_run() -> None:
    mod = parse_main(
        'n = T.int64()\nmade = R.zeros(R.shape([n]), "float32")\nreturn made', s='R.Shape(["n"])'
    )
    vm = relax.VirtualMachine(relax.build(mod), tvm.cpu())
    shape = Shape([3])
    assert vm["main"](shape).numpy().tolist() == [0, 0, 0]
