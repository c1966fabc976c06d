"""SimplifyInference, CanonicalizeOps, Legalize: operators written as others."""

import numpy as np
import pytest
from parsing import main_text, parse_functions
from rewriting import check_kept, check_rewrite

from relaxjax.ir.expr import Expr
from relaxjax.lowering import to_jax
from relaxjax.passes import CanonicalizeOps, Legalize, SimplifyInference, register_legalize
from relaxjax.testing.equations import run


def main(body: str) -> str:
    return main_text(body, x=(2, 3, 4), g=(3,), b=(3,), w=(4,))


@pytest.mark.parametrize(
    "value",
    [
        "R.nn.layer_norm(x, w, w, axes=[-1])",
        "R.nn.layer_norm(x, w, w, axes=[-1], center=False, scale=False)",
        "R.nn.instance_norm(x, g, b, channel_axis=1, axes=[2])",
        "R.nn.instance_norm(x, g, b, channel_axis=1, axes=[2], center=False, scale=False)",
        "R.nn.rms_norm(x, w)",
        "R.nn.dropout(x, rate=0.5)",
        "R.nn.batch_norm(x, g, b, g, b, axis=1, training=False)",
    ],
)
def test_normalizations_are_spelt_out_with_the_same_values(value: str) -> None:
    module = parse_functions(main(f"y = {value}\nreturn y"))
    simple = SimplifyInference()(module)
    assert "norm" not in str(simple)
    assert "dropout" not in str(simple)
    assert SimplifyInference()(simple) is simple
    random = np.random.default_rng(0)
    args = [np.asarray(random.uniform(0.5, 2, p.ty.dims), "float32") for p in module["main"].params]
    found, wanted = (run(to_jax(mod, "main"), *args) for mod in (simple, module))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_other_operators_stay() -> None:
    for given in (SimplifyInference(), CanonicalizeOps(), Legalize()):
        check_kept(given, main("y = R.exp(x)\nz = R.add(y, w)\nreturn z"))


def test_a_bias_is_added_with_axes_of_its_own() -> None:
    check_rewrite(
        CanonicalizeOps(),
        main("y = R.nn.bias_add(x, g)\nz = R.nn.bias_add(y, w, axis=-1)\nreturn z"),
        main("g1 = R.expand_dims(g, axis=[1])\ny = R.add(x, g1)\nz = R.add(y, w)\nreturn z"),
    )


def test_short_forms_are_written_out() -> None:
    check_rewrite(
        CanonicalizeOps(),
        main("y = R.outer(g, w)\nz = R.collapse_sum_like(y, w)\nreturn z"),
        main(
            "g1 = R.expand_dims(g, axis=[1])\nw1 = R.expand_dims(w, axis=[0])\n"
            "y = R.multiply(g1, w1)\nz = R.collapse_sum_to(y, R.shape([4]))\nreturn z"
        ),
    )


def no_bias(data: Expr, bias: Expr, axis: int) -> Expr | None:
    return data + bias if axis == -1 else None


def test_rules_see_arguments_and_attributes() -> None:
    text = main("y = R.nn.bias_add(x, g)\nz = R.nn.bias_add(y, w, axis=-1)\nreturn z")
    after = main("y = R.nn.bias_add(x, g)\nz = R.add(y, w)\nreturn z")
    check_rewrite(Legalize({"relax.nn.bias_add": no_bias}), text, after)
    register_legalize("relax.nn.bias_add", "for_this_test")(no_bias)
    check_rewrite(Legalize(legalize_map_attr_name="for_this_test"), text, after)
    check_kept(Legalize(), text)


def test_rules_are_for_operators_that_exist() -> None:
    module = parse_functions(main("return x"))
    with pytest.raises(KeyError, match=r"no operator `relax\.nn\.bais_add`; did you mean"):
        Legalize({"relax.nn.bais_add": no_bias})(module)
    with pytest.raises(KeyError, match=r"no operator `relax\.nn\.bais_add`"):
        register_legalize("relax.nn.bais_add")
