"""Composites of one backend beside one another become one region."""

import re

import pytest
from parsing import parse_flow
from partition_programs import check_same_results

from relaxjax.dpl import (
    is_op,
    wildcard,
)
from relaxjax.ir import IRModule, well_formed
from relaxjax.passes import FuseOpsByPattern, MergeCompositeFunctions

x, y = wildcard(), wildcard()


def chain(*ops: str) -> IRModule:
    """A chain of operators in one dataflow block, the last two added."""
    lines = [f"{name} = R.{op}" for name, op in zip("abcdefgh", ops, strict=False)]
    return parse_flow("\n".join(lines), x=(2,))


def regions(mod: IRModule) -> list[list[str]]:
    """The operators of each region of a module, one made before another first."""
    found = [f for f in mod.relax_functions().values() if "Codegen" in f.attrs]
    return sorted(re.findall(r"= R\.(\w+)\(", str(f)) for f in found)


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        (("exp(x)", "tanh(a)"), [["exp", "tanh"]]),
        (("exp(x)", "sin(a)", "tanh(b)"), [["exp"], ["tanh"]]),
        # c joins a; e may join d, but not both, because d needs b, which needs a.
        (("exp(x)", "sin(a)", "tanh(a)", "cos(b)", "add(c, d)"), [["cos", "add"], ["exp", "tanh"]]),
        (("exp(x)", "tanh(x)", "add(a, b)"), [["exp", "tanh", "add"]]),
        (("exp(x)", "tanh(x)", "sin(b)"), [["exp"], ["tanh"]]),
    ],
)
def test_regions_are_as_big_as_they_can_be(ops: tuple[str, ...], expected: list[list[str]]) -> None:
    unary = [(f"mine.{name}", is_op(f"relax.{name}")(x)) for name in ("exp", "tanh", "cos")]
    patterns = [*unary, ("mine.add", is_op("relax.add")(x, y))]
    mod = chain(*ops)
    merged = MergeCompositeFunctions()(FuseOpsByPattern(patterns)(mod))
    well_formed(merged)
    check_same_results(mod, merged)
    assert regions(merged) == expected
    assert not any(name.endswith("exp") for name in merged if "Composite" in merged[name].attrs)
    assert MergeCompositeFunctions()(merged) is merged


def test_composites_of_two_backends_stay_apart() -> None:
    yours = [(f"yours.{name}", is_op(f"relax.{name}")(x)) for name in ("sin", "tanh")]
    patterns = [("mine.exp", is_op("relax.exp")(x)), *yours]
    mod = chain("exp(x)", "sin(a)", "tanh(b)")
    merged = MergeCompositeFunctions()(FuseOpsByPattern(patterns)(mod))
    assert regions(merged) == [["exp"], ["sin", "tanh"]]
    assert {f.attrs.get("Codegen") for f in merged.relax_functions().values()} == {
        None,
        "mine",
        "yours",
    }


def test_groups_that_are_alike_are_one_function() -> None:
    """And one closure where they meet in a region."""
    mod = chain("exp(x)", "exp(a)", "sin(b)", "exp(c)")
    fused = FuseOpsByPattern([("mine.exp", is_op("relax.exp")(x))])(mod)
    assert set(fused) == {"main", "fused_relax_exp"}
    merged = MergeCompositeFunctions()(fused)
    assert regions(merged) == [["exp"], ["exp"]]
    region = merged["fused_relax_exp_relax_exp_mine"]
    assert len(list(region.body.bindings())) == 3
    check_same_results(mod, merged)
