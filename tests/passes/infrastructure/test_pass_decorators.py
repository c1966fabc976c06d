"""Users' own passes: TVM's decorators on functions and on classes."""

import functools
from typing import Any

import pytest

from relaxjax.ir import BlockBuilder, DataflowBlock, Function, If, IRModule, TensorType, Var
from relaxjax.ir.node import replace
from relaxjax.ops.binary import add, multiply
from relaxjax.passes.infrastructure.context import PassContext
from relaxjax.passes.infrastructure.decorators import dataflowblock_pass, function_pass, module_pass
from relaxjax.passes.infrastructure.info import PassInfo
from relaxjax.passes.infrastructure.kinds import DataflowBlockPass, FunctionPass, ModulePass


def module() -> IRModule:
    """Two functions, each with a dataflow block of one inner variable and one output."""
    builder = BlockBuilder()
    for name in ("f", "g"):
        x = Var("x", TensorType((3,), "float32"))
        with builder.function(name, [x]):
            with builder.dataflow():
                inner = builder.emit(add(x, x))
                out = builder.emit_output(multiply(inner, x))
            builder.emit_func_output(out)
    return builder.get()


def test_a_module_pass() -> None:
    @module_pass(opt_level=1, name="Keep", required=["Normalize"], traceable=True)
    def keep_f(mod: IRModule, ctx: PassContext) -> IRModule:
        """Keep one."""
        assert ctx is PassContext.current()
        return mod.without_functions("g")

    assert isinstance(keep_f, ModulePass)
    assert keep_f.info == PassInfo(1, "Keep", ("Normalize",), True)
    assert keep_f.__doc__ == "Keep one."
    assert list(keep_f(module())) == ["f"]


def test_a_decorator_given_the_function_at_once() -> None:
    def unchanged(mod: IRModule, ctx: PassContext) -> IRModule:
        return mod

    mod = module()
    made: Any = module_pass(unchanged, opt_level=0)
    assert made.info.name == "unchanged"
    assert made(mod) is mod


def test_a_module_pass_class() -> None:
    @module_pass(opt_level=1)
    class Drop:
        """Drop a function."""

        def __init__(self, name: str) -> None:
            self.dropped = name

        def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
            return mod.without_functions(self.dropped)

    assert isinstance(Drop("g"), ModulePass)
    drop: Any = Drop("g")
    assert (drop.info.name, drop.dropped, Drop.__doc__) == ("Drop", "g", "Drop a function.")
    assert list(drop(module())) == ["f"]
    with pytest.raises(AttributeError, match="missing"):
        _ = drop.missing


def test_a_function_pass_and_its_class() -> None:
    @function_pass(opt_level=0)
    def tag(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return func.with_attr("tag", len(mod))

    @function_pass(opt_level=0)
    class Tag:
        def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
            return func.with_attr("tag", len(mod))

    passes: list[Any] = [tag, Tag()]
    for made in passes:
        assert isinstance(made, FunctionPass)
        assert made(module())["g"].attrs["tag"] == 2


def test_a_dataflowblock_pass_and_its_class() -> None:
    def doubled(block: DataflowBlock) -> DataflowBlock:
        bindings = [replace(b, value=_with_add(b.value)) for b in block.bindings]
        return replace(block, bindings=tuple(bindings))

    @dataflowblock_pass(opt_level=0)
    def to_add(block: DataflowBlock, mod: IRModule, ctx: PassContext) -> DataflowBlock:
        return doubled(block)

    @dataflowblock_pass(opt_level=0)
    class ToAdd:
        def transform_dataflowblock(
            self, block: DataflowBlock, mod: IRModule, ctx: PassContext
        ) -> DataflowBlock:
            return doubled(block)

    passes: list[Any] = [to_add, ToAdd()]
    for made in passes:
        assert isinstance(made, DataflowBlockPass)
        values = [binding.value for binding in made(module())["g"].body.bindings()]
        assert [value.op.name for value in values] == ["relax.add", "relax.add"]


def _with_add(call: Any) -> Any:
    return replace(call, op=add)


def test_a_dataflowblock_pass_sees_the_blocks_of_branches_only_where_they_are_dataflow() -> None:
    x = Var("x", TensorType((3,), "float32"))
    c = Var("c", TensorType((), "bool"))
    builder = BlockBuilder()
    with builder.function("main", [x, c]):
        with builder.scope():
            with builder.dataflow():
                out = builder.emit_output(add(x, x))
            true = builder.sequence(out)
        with builder.scope():
            false = builder.sequence(builder.emit(multiply(x, x)))
        builder.emit_func_output(builder.emit(If(c, true, false)))
    seen: list[tuple[str, ...]] = []

    @dataflowblock_pass(opt_level=0)
    def look(block: DataflowBlock, mod: IRModule, ctx: PassContext) -> DataflowBlock:
        seen.append(tuple(binding.var.name for binding in block.bindings))
        return block

    mod = builder.get()
    assert look(mod) is mod
    assert seen == [(out.name,)]


def test_a_dataflowblock_pass_must_keep_the_outputs() -> None:
    @dataflowblock_pass(opt_level=0)
    def lose(block: DataflowBlock, mod: IRModule, ctx: PassContext) -> DataflowBlock:
        return replace(block, bindings=block.bindings[:1])

    with pytest.raises(ValueError, match="the pass `lose` lost the output `gv` of a dataflow"):
        lose(module())


def test_a_dataflowblock_pass_must_return_a_block() -> None:
    @dataflowblock_pass(opt_level=0)
    def wrong(block: DataflowBlock, mod: IRModule, ctx: PassContext) -> DataflowBlock:
        return block.bindings  # type: ignore[return-value]  # wrong on purpose

    with pytest.raises(TypeError, match=r"`wrong` must return a DataflowBlock, but .* tuple"):
        wrong(module())


def test_a_dataflowblock_pass_may_not_assign_into_the_module() -> None:
    @dataflowblock_pass(opt_level=0)
    def assign(block: DataflowBlock, mod: IRModule, ctx: PassContext) -> DataflowBlock:
        mod["h"] = mod["f"]
        return block

    with pytest.raises(ValueError, match="the pass `assign` assigns into the module"):
        assign(module())


def test_an_error_in_a_block_names_the_function() -> None:
    @dataflowblock_pass(opt_level=0)
    def fail(block: DataflowBlock, mod: IRModule, ctx: PassContext) -> DataflowBlock:
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost") as error:
        fail(module())
    assert error.value.__notes__ == ["in the function `f`", "in the pass `fail`"]


@pytest.mark.parametrize("decorator", [module_pass, function_pass, dataflowblock_pass])
def test_what_a_decorator_needs(decorator: Any) -> None:
    name = decorator.__name__
    with pytest.raises(ValueError, match=f"`{name}` needs an `opt_level`"):
        decorator(lambda *_: None)
    with pytest.raises(TypeError, match=f"`{name}` takes a function or a class, found 3"):
        decorator(opt_level=0)(3)
    with pytest.raises(TypeError, match=f"`{name}` needs a `name` for functools.partial"):
        decorator(opt_level=0)(functools.partial(lambda *_: None))
    made = decorator(opt_level=0, name="Own")(functools.partial(lambda *_: None))
    assert made.info.name == "Own"
    with pytest.raises(TypeError, match=r"`required` takes a list of names .*, found 'Normalize'"):
        decorator(opt_level=0, required="Normalize")(lambda *_: None)

    class Empty:
        pass

    message = rf"the class `Empty` needs a method `transform_\w+` to be decorated with `{name}`"
    with pytest.raises(TypeError, match=message):
        decorator(opt_level=0)(Empty)
