"""Training steps as a GPU and a TPU get them: what they never hold, and what they write in place.

That takes no such device, and runs nothing: what is looked at are the operations of the programs
that are lowered for it.
"""

import re
from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Any

import jax
import pytest
from parsing import parse_module

from relaxjax.ir import IRModule, TensorType, TupleType, Type
from relaxjax.losses import CrossEntropyLoss, Loss, MSELoss
from relaxjax.optim import SGD, Adam, Lazy, Narrow, Optimizer
from relaxjax.passes import SetupTrainer
from relaxjax.training.layout import Layout
from relaxjax.training.placement import Placement
from relaxjax.training.step import TrainState, TrainStep

ELSEWHERE = ("cuda", "tpu")
LAYERS, ROWS, WIDTH, IDS, TOKENS, WORDS = 4, 10_000, 8, 16, 2048, 32_768


def backbone(text: str, params: int) -> IRModule:
    attrs = f'I.module_attrs({{"param_num": {params}, "state_num": 0}})'
    return parse_module(f"@I.ir_module\nclass Model:\n    {attrs}\n{text}")


TABLE = f"""
    @R.function
    def backbone(
        ids: R.Tensor(({IDS},), "int32"),
        table: R.Tensor(({ROWS}, {WIDTH}), "float32"),
        w: R.Tensor(({WIDTH}, 3), "float32"),
    ):
        with R.dataflow():
            out = R.matmul(R.take(table, ids, axis=0), w)
            R.output(out)
        return out
"""
SPEECH = f"""
    @R.function
    def backbone(
        x: R.Tensor(({TOKENS}, {WIDTH}), "float32"),
        w: R.Tensor(({WIDTH}, {WORDS}), "float32"),
    ):
        with R.dataflow():
            scores = R.matmul(x, w)
            R.output(scores)
        return scores
"""
LAYER = "            h{after} = R.add(h{before}, R.matmul(R.tanh(h{before}), w{before}))"
SIDE = 256  # of the weights of layers, which are large enough for updates in their loop
DEEP = "\n".join(
    [
        "    @R.function",
        f'    def backbone(h0: R.Tensor((2, {SIDE}), "float32"),',
        *(f'        w{i}: R.Tensor(({SIDE}, {SIDE}), "float32"),' for i in range(LAYERS)),
        "    ):",
        "        with R.dataflow():",
        *(LAYER.format(before=i, after=i + 1) for i in range(LAYERS)),
        f"            R.output(h{LAYERS})",
        f"        return h{LAYERS}",
    ]
)


def floats(*dims: int) -> TensorType:
    return TensorType(dims, "float32")


def set_up(text: str, loss: Loss, optimizer: Optimizer, platform: str, *types: Any) -> IRModule:
    params = LAYERS if text == DEEP else 2 if text == TABLE else 1
    setup = SetupTrainer(loss, optimizer, list(types), roll_blocks=text == DEEP, target=platform)
    return setup(backbone(text, params))


def lowered(mod: IRModule, platform: str) -> Any:
    """The step as a trainer compiles it, for a device that is not here."""
    step = TrainStep(mod, Placement.of(mod, Layout.of(mod), jax.local_devices()[0]))
    with step.dtypes():
        *state, inputs, targets = map(shapes, (param.ty for param in mod["train_step"].params))
        traced = step.one.trace(TrainState(*state), (inputs,), (targets,))
        return traced.lower(lowering_platforms=(platform,))


def shapes(ty: Type) -> Any:
    if isinstance(ty, TupleType):
        return tuple(map(shapes, ty.fields))
    assert isinstance(ty, TensorType)
    assert ty.dims is not None
    return jax.ShapeDtypeStruct(ty.dims, ty.dtype)


def results(operation: Any) -> Iterator[tuple[str, tuple[int, ...]]]:
    """What an operation and those inside of it give: names, and the shapes of tensors."""
    for result in operation.results:
        *dims, _ = str(result.type).removeprefix("tensor<").split("x")
        yield operation.name.removeprefix("stablehlo."), tuple(map(int, dims))
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from results(inner.operation)


def results_of(program: Any) -> list[tuple[str, tuple[int, ...]]]:
    return list(results(program.compiler_ir("stablehlo").operation))


def check_written_in_place(program: Any) -> None:
    """Whether each parameter and state that comes out, all but the loss, takes the old one's."""
    text = program.as_text()
    assert text.count("tf.aliasing_output") == len(jax.tree.leaves(program.out_info)) - 1


BY_ROWS: dict[str, tuple[Optimizer, int]] = {
    "SGD": (SGD(0.1), 1),
    "lazy Adam": (Lazy(Adam(0.1)), 3),
    "lazy Adam in bfloat16": (Lazy(Narrow(Adam(0.1))), 3),
}


@pytest.mark.parametrize("platform", ELSEWHERE)
@pytest.mark.parametrize(("optimizer", "tables"), BY_ROWS.values(), ids=BY_ROWS)
def test_rows_of_tables_are_written_in_place(
    optimizer: Optimizer, tables: int, platform: str
) -> None:
    """Neither a gradient nor anything else of a table's size is made, but for the new tables."""
    mod = set_up(TABLE, MSELoss(), optimizer, platform, floats(IDS, 3), floats(IDS, 3))
    program = lowered(mod, platform)
    large = Counter(name for name, dims in results_of(program) if prod(dims) >= ROWS)
    assert large == {"scatter": tables}
    check_written_in_place(program)


@pytest.mark.parametrize("platform", ELSEWHERE)
def test_the_scores_of_many_words_are_never_whole(platform: str) -> None:
    labels = TensorType((TOKENS,), "int32")
    mod = set_up(SPEECH, CrossEntropyLoss(), Adam(0.1), platform, floats(TOKENS, WORDS), labels)
    found = results_of(lowered(mod, platform))
    assert max(prod(dims) for _, dims in found) == TOKENS // 2 * WORDS
    assert Counter(name for name, _ in found)["dot_general"] == 2


@pytest.mark.parametrize("platform", ELSEWHERE)
def test_layers_are_updated_in_the_loop_back(platform: str) -> None:
    """Stacks of weights and states are only written to: nothing is computed of all layers."""
    mod = set_up(DEEP, MSELoss(), Adam(0.1), platform, floats(2, SIDE), floats(2, SIDE))
    program = lowered(mod, platform)
    found = results_of(program)
    stacks = Counter(name for name, dims in found if prod(dims) == LAYERS * SIDE * SIDE)
    assert stacks.pop("dynamic_update_slice") == 3
    assert stacks.keys() <= {"while", "func.call", "optimization_barrier"}
    check_written_in_place(program)


@pytest.mark.parametrize("platform", ELSEWHERE)
@pytest.mark.parametrize(
    ("dtype", "counts"), [("bfloat16", {"bf16": 4}), ("int8", {"i8": 2, "ui8": 2})]
)
def test_narrow_states_are_written_in_place(
    dtype: Any, counts: dict[str, int], platform: str
) -> None:
    """Both moments of both parameters are narrow where they come in and where they go out."""
    narrow = Narrow(Adam(0.1), dtype, 16)
    mod = set_up(TABLE, MSELoss(), narrow, platform, floats(IDS, 3), floats(IDS, 3))
    program = lowered(mod, platform)
    for kind, count in counts.items():
        given = rf"%arg\d+: tensor<[\dx]+x{kind}> {{tf\.aliasing_output"
        assert len(re.findall(given, program.as_text())) == count
    check_written_in_place(program)
