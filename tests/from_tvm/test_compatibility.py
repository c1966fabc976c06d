"""TVM's names beyond its tutorial: arrays, devices, both trainers, and what they refuse."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_models import BATCH, CLASSES, FEATURES, Classifier, Counting, batch

import relaxjax
import relaxjax.dpl
import relaxjax.script
from relaxjax import tvm
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.node import replace
from relaxjax.ops.platform import lowering_for
from relaxjax.script import ir as I
from relaxjax.script import relax as R
from relaxjax.tvm import relax
from relaxjax.tvm.relax.training import SetupTrainer, Trainer
from relaxjax.tvm.relax.training.loss import CrossEntropyLoss, MSELoss
from relaxjax.tvm.relax.training.optimizer import SGD
from relaxjax.tvm.relax.transform import DeadCodeElimination

CLASSIFIER: Any = Classifier  # mypy takes them for classes
COUNTING: Any = Counting
SETUP = SetupTrainer(
    CrossEntropyLoss(),
    SGD(0.1),
    [
        relax.TensorStructInfo((BATCH, CLASSES), "float32"),
        relax.TensorStructInfo((BATCH,), "int64"),
    ],
)


@I.ir_module
class Predicting:
    """The classifier in the order of 2023: parameters first."""

    @R.function
    def predict(
        w: R.Tensor((FEATURES, CLASSES), "float32"), x: R.Tensor((BATCH, FEATURES), "float32")
    ) -> R.Tensor((BATCH, CLASSES), "float32"):
        with R.dataflow():
            out = R.matmul(x, w)
            R.output(out)
        return out


# Arrays and devices


def test_arrays() -> None:
    array = tvm.nd.array([[1.0, 2.0]])
    assert array.shape == (1, 2)
    assert array.dtype == "float64"
    assert len(array) == 1
    assert "NDArray(shape=(1, 2), dtype=float64)" in repr(array)
    np.testing.assert_array_equal(array.numpy(), array.asnumpy())
    np.testing.assert_array_equal(np.asarray(array), [[1, 2]])
    assert float(tvm.nd.array(3)) == int(tvm.nd.array(3)) == 3


def test_arrays_are_copies() -> None:
    host = np.ones(3, "float32")
    array = tvm.nd.array(host)
    host[:] = 2
    array.numpy()[:] = 3
    np.asarray(array).copy()[:] = 4
    assert np.array(array, copy=True).sum() == 3


def test_arrays_on_devices() -> None:
    array = tvm.nd.array(np.ones(3, "float32"), tvm.cpu())
    assert isinstance(array.data, jax.Array)
    assert tvm.device("llvm", 0) == tvm.cpu(0) == jax.devices("cpu")[0]


@pytest.mark.parametrize("kind", [tvm.cuda, tvm.rocm, tvm.gpu])
def test_a_device_that_is_not_there_is_an_error(kind: Any) -> None:
    if jax.devices()[0].platform != "cpu":
        pytest.skip("there is a device beside the CPU")
    with pytest.raises(ValueError, match=f"there is no device for `{kind.__name__}` here"):
        kind()


def test_tuples_and_names() -> None:
    assert tvm.runtime.tuple_object([1, 2]) == (1, 2)
    assert relax.TensorType is relaxjax.TensorType
    assert relax.transform.DeadCodeElimination is DeadCodeElimination
    assert "Gradient" in dir(relax.transform)
    assert relax.transform.FusionPattern is relaxjax.dpl.FusionPattern
    assert relax.dpl.is_op is relaxjax.dpl.is_op
    assert "wildcard" in dir(relax.dpl)
    with pytest.raises(AttributeError, match="NoSuchPass"):
        getattr(relax.transform, "NoSuchPass")  # noqa: B009  # checkers know that there is none


def test_the_virtual_machine_takes_and_gives_arrays() -> None:
    vm = relax.VirtualMachine(tvm.compile(CLASSIFIER, "llvm"), tvm.cpu())
    shapes = [(FEATURES, 7), (7,), (7, CLASSES), (CLASSES,)]
    params = [tvm.nd.array(np.ones(shape)) for shape in shapes]  # float64, and nothing is lost
    result = vm["backbone"](jnp.ones((BATCH, FEATURES)), *params)
    assert isinstance(result, tvm.nd.NDArray)
    np.testing.assert_allclose(result.numpy(), FEATURES * 7 + 7 + 1)


def test_the_virtual_machine_tells_what_a_function_costs() -> None:
    vm = relax.VirtualMachine(tvm.compile(COUNTING), tvm.cpu(), profile=True)
    args = np.ones((1, 2)), np.ones(2, "float32"), np.float32(0)
    report = vm.profile("backbone", *map(tvm.nd.array, args))  # of float64, nothing is lost
    assert report.function == "backbone"
    assert report.argument_bytes == (2 + 2 + 1) * 4


def test_the_virtual_machine_refuses_what_would_change() -> None:
    vm = relax.VirtualMachine(tvm.compile(COUNTING))
    n, third = np.ones((1, 2), "float32"), np.array([1 / 3, 1])
    with pytest.raises(TypeError, match=r"argument `w` is of dtype float32, but .* float64 and"):
        vm["backbone"](n, third, np.float32(0))


def test_the_virtual_machine_counts_arguments() -> None:
    vm = relax.VirtualMachine(tvm.compile(COUNTING))
    one = np.ones((1, 2), "float32")
    with pytest.raises(TypeError, match="`backbone` takes 3 arguments"):
        vm["backbone"](one, one[0], np.float32(0), one)


def test_the_virtual_machine_keeps_arguments_and_results() -> None:
    vm = relax.VirtualMachine(tvm.compile(COUNTING))
    with pytest.raises(ValueError, match=r'no arguments yet: call `set_input\("backbone", ...\)`'):
        vm.invoke_stateful("backbone")
    with pytest.raises(ValueError, match=r'not run: call `invoke_stateful\("backbone"\)` first'):
        vm.get_outputs("backbone")
    vm.set_input("backbone", np.ones((1, 2), "float32"), np.ones(2, "float32"), np.float32(0))
    vm.invoke_stateful("backbone")
    kept, told = vm.get_outputs("backbone"), vm["backbone"](*vm._inputs["backbone"])
    np.testing.assert_array_equal(kept[0].numpy(), told[0].numpy())


# Programs


def test_operators_of_expressions() -> None:
    builder = relax.BlockBuilder()
    n = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.sum(relax.op.nn.relu(x), axis=1))
        builder.emit_func_output(result)
    assert str(builder.get()["main"].ret_ty) == 'R.Tensor((n,), dtype="float32")'


def test_names_by_a_star() -> None:
    names: dict[str, Any] = {}
    exec("from relaxjax.tvm.relax.transform import *", names)
    assert names["Gradient"] is relax.transform.Gradient
    exec("from relaxjax.tvm.relax.dpl import *", names)
    assert names["wildcard"] is relax.dpl.wildcard
    exec("from relaxjax.tvm.transform import *", names)
    assert names["PassContext"] is tvm.transform.PassContext


def test_targets() -> None:
    vm = relax.VirtualMachine(relax.build(COUNTING, tvm.target.Target("llvm")))
    assert vm["backbone"](*map(np.ones, [(1, 2), (2,), ()]))
    with tvm.target.Target({"kind": "llvm", "mcpu": "generic"}) as target:
        assert tvm.target.Target("llvm") == target
    with pytest.raises(TypeError, match=r"takes the name of a target, found \{\}: write `Target"):
        tvm.target.Target({})


def test_pipelines() -> None:
    changed = relax.get_pipeline("zero")(built())
    assert relax.analysis.well_formed(changed)
    with pytest.raises(ValueError, match="there is no pipeline `fast`; there are: zero, default"):
        relax.get_pipeline("fast")


def test_copies_with_variables_of_their_own() -> None:
    function = built()["main"]
    copied = relax.utils.copy_with_new_vars(function)
    tvm.ir.assert_structural_equal(function, copied)
    assert not set(relax.analysis.all_vars(function)) & set(relax.analysis.all_vars(copied))


def test_a_function_of_an_expression_alone() -> None:
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    alone: Any = relax.op.exp(x)
    function = relax.Function((x,), alone, relax.TensorType((2,), "float32"))
    normal = relax.transform.Normalize()(tvm.IRModule.from_expr(function))["main"]
    assert [str(binding.value) for binding in normal.body.bindings()] == ["R.exp(x)"]
    assert relax.analysis.well_formed(normal)


def test_gradients_are_not_registered() -> None:
    with pytest.raises(NotImplementedError, match=r'apply `CustomGradient\("floor", gradient=rule'):
        relax.op.base.register_gradient("relax.floor", lambda *rule: rule)


def test_what_can_be_asked_of_a_function() -> None:
    function = CLASSIFIER["backbone"]
    analysis = relax.analysis
    assert analysis.check_well_formed(CLASSIFIER)
    assert not analysis.contains_impure_call(function)
    bindings = analysis.name_to_binding(function)
    for var, value in analysis.get_var2val(function).items():
        assert [binding.value for binding in bindings[var.name]] == [value]
    users = analysis.udchain(function.body.blocks[0])
    x = function.params[0]
    values = analysis.get_var2val(function)
    assert users[x] == [var for var, value in values.items() if x in analysis.used_vars(value)]
    assert x in analysis.used_vars(function)


# Trainers


def test_the_trainer_of_today() -> None:
    train_mod = SETUP(CLASSIFIER)
    trainer = Trainer(train_mod, relax.VirtualMachine(tvm.compile(train_mod), tvm.cpu()), tvm.cpu())
    trainer.load_params({"b1": tvm.nd.array(np.ones(CLASSES, "float32"))})
    x, labels = batch(0)
    loss = trainer.update([tvm.nd.array(x)], [labels.astype("float32")])
    np.testing.assert_allclose(loss.numpy(), np.log(CLASSES), rtol=1e-5)
    assert trainer.predict(tvm.nd.array(x)).numpy().shape == (BATCH, CLASSES)
    assert trainer.export_params()["w0"].numpy().shape == (FEATURES, 7)
    with pytest.raises(RuntimeError, match="given a VirtualMachine is built already"):
        trainer.build()
    with pytest.raises(AttributeError, match="a Trainer has no attribute `fly`"):
        trainer.fly()


def test_states_of_the_trainer_of_today() -> None:
    ty = relax.TensorStructInfo((SymbolicVar("n"), 2), "float32")
    train_mod = SetupTrainer(MSELoss("sum"), SGD(0.1), [ty, ty])(COUNTING)
    trainer = Trainer(train_mod, relax.VirtualMachine(tvm.compile(train_mod)))
    trainer.load_states([tvm.nd.array(np.float32(3))])
    assert float(trainer.export_states()["calls"]) == 3
    first, second = trainer.predict(np.ones((1, 2), "float32"))
    np.testing.assert_array_equal(second.numpy() - first.numpy(), [[2, 2]])


@pytest.mark.parametrize(("mod", "count"), [(Classifier, 4), (Predicting, 1)])
def test_the_trainer_of_2023(mod: Any, count: int) -> None:
    trainer = Trainer(mod, count, SETUP)
    trainer.build(target="llvm", device=tvm.cpu(0))
    trainer.xaiver_uniform_init_params()
    x, labels = batch(0)
    losses = [float(trainer.update_params(x, labels)) for _ in range(30)]
    assert losses[-1] < 0.9 * losses[0]
    reports = trainer.fit([(x, labels)], 2)
    assert reports[-1].loss < losses[-1]


def test_the_trainer_of_2023_is_set_up_for_the_target_that_it_is_built_for() -> None:
    """And not for where JAX runs by default, here as if that were a GPU."""
    mod: Any = Classifier
    trainer = Trainer(mod, 4, SETUP)
    with lowering_for("cuda"):
        trainer.build(target="llvm", device=tvm.cpu(0))
    assert trainer.mod.attrs["platform"] == "cpu"


def test_functions_of_losses_and_backbones_are_joined() -> None:
    joined = relax.training.utils.append_loss(
        CLASSIFIER["backbone"],
        CrossEntropyLoss()(
            relax.TensorType((BATCH, CLASSES), "float32"), relax.TensorType((BATCH,), "int64")
        ),
        new_func_name="backbone",
    )
    assert joined.global_symbol == "backbone"
    assert joined.params[-1].name == "targets"


# What the older trainer refuses


def test_the_trainer_of_2023_must_be_built_first() -> None:
    trainer = Trainer(CLASSIFIER, 4, SETUP)
    with pytest.raises(RuntimeError, match=r"build the trainer first. Use `trainer.build\(...\)`"):
        trainer.xaiver_uniform_init_params()
    with pytest.raises(RuntimeError, match="build the trainer first"):
        trainer.update_params(*batch(0))
    assert repr(trainer) == "<Trainer that is to be built by build()>"


def test_the_trainer_of_2023_once_built_is_as_any_other() -> None:
    trainer = Trainer(CLASSIFIER, 4, SETUP)
    trainer.build(target="llvm", device=tvm.cpu(0))
    assert "4 parameters" in repr(trainer)
    with pytest.raises(AttributeError, match="a Trainer has no attribute `sumary`"):
        _ = trainer.sumary


def test_the_trainer_of_2023_takes_a_setup() -> None:
    with pytest.raises(TypeError, match="`setup_trainer` must be a SetupTrainer, but it is of typ"):
        Trainer(CLASSIFIER, 4)


def test_a_module_without_a_backbone_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"neither a function `backbone`, .* nor `predict`, which"):
        Trainer(relaxjax.IRModule(), 4, SETUP)


def test_counts_of_parameters_must_agree() -> None:
    with pytest.raises(ValueError, match=r"told of 3 parameters, but .* `param_num` says 4"):
        Trainer(CLASSIFIER, 3, SETUP)


# Building, asking, changing


def built() -> Any:
    """A program as those for TVM build it, from operators."""
    x, free = relax.Var("x", R.Tensor((2, 3), "float32")), relax.Var("y", R.Tensor((3,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, free]):
        with builder.dataflow():
            lv = builder.emit(relax.op.nn.relu(relax.op.add(x, free)))
            out = builder.emit_output(relax.op.sum(lv, axis=1))
        builder.emit_func_output(out)
    return builder.get()


def test_operators_build_what_the_script_says() -> None:
    from relaxjax.tvm.relax.op import add

    assert add is relax.op.add
    assert {"add", "nn", "image"} <= set(dir(relax.op))
    expected = relaxjax.script.from_source("""
@R.function
def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((3,), "float32")):
    with R.dataflow():
        lv = R.add(x, y)
        lv1 = R.nn.relu(lv)
        gv = R.sum(lv1, axis=1)
        R.output(gv)
    return gv
""")
    tvm.ir.assert_structural_equal(built()["main"], expected)
    assert tvm.ir.structural_equal(tvm.ir.load_json(tvm.ir.save_json(built())), built())


def test_passes_where_tvm_has_them() -> None:
    passes = [relax.transform.Gradient("main", cotangent=True), relax.transform.FoldConstant()]
    assert tvm.transform is tvm.ir.transform
    assert "Sequential" in dir(tvm.transform)
    with tvm.transform.PassContext(opt_level=3):
        changed = tvm.ir.transform.Sequential(passes)(built())
    assert "main_adjoint" in changed


def test_what_can_be_asked_of_a_program() -> None:
    module = built()
    function = module["main"]
    analysis = relax.analysis
    assert [var.name for var in analysis.bound_vars(function)] == ["x", "y", "lv", "lv1", "gv"]
    assert [var.name for var in analysis.free_vars(function.body)] == ["x", "y"]
    assert analysis.all_vars(function) == analysis.bound_vars(function)
    assert analysis.all_global_vars(function) == []
    kinds: list[str] = []
    analysis.post_order_visit(function, lambda expr: kinds.append(type(expr).__name__))
    assert (kinds.count("Call"), kinds[-2:]) == (3, ["SeqExpr", "Function"])
    assert analysis.well_formed(module)
    with pytest.raises(relax.WellFormedError, match="y"):
        analysis.well_formed(
            module.with_function("main", replace(function, params=(function.params[0],)))
        )
    assert analysis.remove_all_unused(function) is function
