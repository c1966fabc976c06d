"""Where a step says that each device needs all of a parameter."""

import re

import jax
import pytest
from jax.sharding import Mesh

from relaxjax import IRModule, from_source
from relaxjax.trainable.gathering import gathering
from relaxjax.trainable.sharding import Split

HEAD = "@I.ir_module\nclass Module:\n    @R.function\n    def main("


def mesh(*axes: str) -> Mesh:
    shape = dict.fromkeys(axes, 1)
    return jax.make_mesh([*shape.values()], [*shape])


def gathered(mod: IRModule, splits: dict[str, Split], *axes: str) -> IRModule:
    params = {param.name: param for param in mod["main"].params}
    named = {params[name]: split for name, split in splits.items()}
    return gathering(mod, "main", named, ("data",), mesh(*axes))


PRODUCTS = f"""{HEAD}
        x: R.Tensor((4, 8), "float32"),
        ids: R.Tensor((4,), "int32"),
        w: R.Tensor((8, 8), "float32"),
        table: R.Tensor((16, 8), "float32"),
        bias: R.Tensor((8,), "float32"),
    ):
        first = R.matmul(x, w)
        found = R.take(table, ids, axis=0)
        second = R.matmul(R.add(first, found), w)
        out = R.add(second, bias)
        return out
"""


def said(mod: IRModule) -> list[str]:
    """The annotations, and the lines with products, sums and look-ups."""
    lines = [line.strip() for line in mod.script().splitlines()]
    words = ("annotate_sharding", "matmul", "R.add", "R.take")
    return [short(line) for line in lines if any(word in line for word in words)]


def short(line: str) -> str:
    """What a line binds, without its mesh."""
    return re.sub(r"device_mesh=R.*?\]\), |, out_dtype=None", "", line.partition(" = ")[2])


def test_a_parameter_is_gathered_once_and_no_table_that_rows_are_looked_up_in() -> None:
    splits: dict[str, Split] = {"w": ((), ("data",)), "table": (("data",),)}
    assert said(gathered(from_source(PRODUCTS), splits, "data")) == [
        'R.dist.annotate_sharding(w, placement="R")',
        "R.matmul(x, w_whole)",
        'R.take(table, ids, axis=0, mode="fast")',
        "R.add(first, found)",
        "R.matmul(gv, w_whole)",
        "R.add(second, bias)",
    ]


def looked_up(rows: int, ids: int, split: Split, take: str) -> str:
    """How a table of so many rows of 8 is given to a look-up of so many of them."""
    source = f"""{HEAD}
        ids: R.Tensor(({ids},), "int32"),
        table: R.Tensor(({rows}, 8), "float32"),
    ):
        out = {take}
        return out
"""
    text = gathered(from_source(source), {"table": split}, "data").script()
    (line,) = re.findall(r"(?:R.take|L.gather)\((\w+),", text)
    return str(line)


@pytest.mark.parametrize(
    "take",
    [
        "R.take(table, ids, axis=0)",
        (
            "L.gather(table, R.reshape(ids, (ROWS, 1)), dimension_numbers="
            '{"GatherDimensionNumbers": {"offset_dims": [1], "collapsed_slice_dims": [0], '
            '"start_index_map": [0], "operand_batching_dims": [], '
            '"start_indices_batching_dims": []}}, '
            "slice_sizes=[1, 8], unique_indices=False, indices_are_sorted=False, "
            'mode={"GatherScatterMode": "CLIP"})'
        ),
    ],
    ids=["take", "gather"],
)
def test_a_table_is_gathered_where_the_split_of_its_rows_would_spread_to_more(take: str) -> None:
    """Or else XLA splits all that follows in the same way, and gathers that again and again."""
    of_rows: Split = ((), ("data",))
    wide, narrow = take.replace("ROWS", "32"), take.replace("ROWS", "4")
    assert looked_up(16, 32, of_rows, wide) == "table_whole"
    assert looked_up(16, 32, (("data",),), wide) == "table"
    assert looked_up(16, 4, of_rows, narrow) == "table"


ADJOINT = f"""{HEAD}
        x: R.Tensor((4, 8), "float32"),
        w: R.Tensor((8, 8), "float32"),
        v: R.Tensor((8, 8), "float32"),
    ):
        h = R.matmul(x, w)
        o = R.matmul(h, v)
        s = R.sum(o)
        one = R.ones((4, 8), "float32")
        p = R.permute_dims(v)
        g = R.matmul(one, p)
        q = R.permute_dims(w)
        d = R.matmul(g, q)
        return (s, (d,))
"""


def test_what_is_needed_again_on_the_way_back_is_gathered_again() -> None:
    """Once the layer behind is done, and split until then, or XLA would gather it before.

    What was used last is there still.
    """
    mod = gathered(from_source(ADJOINT), {"w": (("data",),), "v": ((), ("data",))}, "data")
    lines = [short(line) for line in mod.script().splitlines() if "late" in line]
    assert lines == [
        "R.grad.delay(w, g)",
        'R.dist.annotate_sharding(w_late, placement="S[0]")',
        'R.dist.annotate_sharding(w_late_1, placement="R")',
    ]
    assert "R.permute_dims(v_whole," in mod.script()
    assert "R.permute_dims(w_whole_1" in mod.script()


def test_other_axes_than_those_of_the_batch_stay_split() -> None:
    splits: dict[str, Split] = {"w": (("data",), ("model",)), "bias": (("model",),)}
    annotated, *rest = said(gathered(from_source(PRODUCTS), splits, "data", "model"))
    assert annotated == ('R.dist.annotate_sharding(w, placement="R, S[1]")')
    assert rest[-1] == "R.add(second, bias)"
    splits["w"] = ("data",), ("model", "other")
    annotated, *_ = said(gathered(from_source(PRODUCTS), splits, "data", "model", "other"))
    assert annotated == 'R.dist.annotate_sharding(w, placement="R, S[1], S[1]")'


def test_what_no_type_can_say_stays_as_it_is() -> None:
    mod = from_source(PRODUCTS)
    splits: dict[str, Split] = {"w": (("data",), ("other", "model"))}
    assert said(gathered(mod, splits, "data", "model", "other")) == said(mod)
    assert gathered(mod, {"bias": (("model",),)}, "data", "model") is mod


LOOP = f"""{HEAD}
        x: R.Tensor((4, 8), "float32"),
        w: R.Tensor((3, 8, 8), "float32"),
        b: R.Tensor((3, 8), "float32"),
        once: R.Tensor((8,), "float32"),
    ):
        @R.function
        def layer(x: R.Tensor((4, 8), "float32"), own: R.Tuple(R.Tensor((8, 8), "float32"),
                  R.Tuple(R.Tensor((8,), "float32")))) -> R.Tuple(
                      R.Tensor((4, 8), "float32"), R.Tuple()):
            w1 = own[0]
            inner = own[1]
            b1 = inner[0]
            product = R.matmul(x, w1)
            scaled = R.multiply(product, once)
            out = R.add(scaled, b1)
            return (out, R.tuple())

        looped = R.scan(layer, x, (w, (b,)), length=3)
        out = looped[0]
        return out
"""


def test_a_loop_gathers_the_rows_of_its_own_step() -> None:
    splits: dict[str, Split] = {
        "w": ((), (), ("data",)), "b": ((), ("data",)), "once": (("data",),)
    }  # fmt: skip
    text = gathered(from_source(LOOP), splits, "data").script()
    lines = [short(line.strip()) for line in text.splitlines()]
    before, inside = "\n".join(lines).split("own[0]")
    assert before.count("annotate_sharding(once") == 1
    assert [line for line in inside.splitlines() if line.startswith("R.")] == [
        'R.dist.annotate_sharding(w1, placement="R")',
        "R.matmul(x_1, w1_whole)",
        "R.multiply(product, once_whole)",
        'R.dist.annotate_sharding(b1, placement="R")',
        "R.add(scaled, b1_whole)",
        "R.scan(layer, x, (w, (b,)), length=3, reverse=False, checkpoint=False, unroll=1)",
    ]


@pytest.mark.parametrize("split", [(("data",),), ((), ())])
def test_a_stack_whose_rows_are_on_several_devices_is_left_to_xla(split: Split) -> None:
    text = gathered(from_source(LOOP), {"w": split}, "data").script()
    assert "annotate_sharding" not in text
