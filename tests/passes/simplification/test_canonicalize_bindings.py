"""Values under their first names."""

import pytest
from parsing import parse_main

from relaxjax.ir import IRModule, assert_structural_equal, well_formed
from relaxjax.passes.simplification.canonicalize_bindings import CanonicalizeBindings

X = 'x: R.Tensor((3,), "float32")'


def parse(body: str, params: str = X) -> IRModule:
    return parse_main(body, params)


CASES = {
    "an alias goes": ("y = x\nz = R.exp(y)\nreturn z", "z = R.exp(x)\nreturn z"),
    "a chain of aliases goes": (
        "a = R.exp(x)\nb = a\nc = b\nd = R.add(c, b)\nreturn d",
        "a = R.exp(x)\nd = R.add(a, a)\nreturn d",
    ),
    "an output takes the place of the hidden variable that it names": (
        (
            "with R.dataflow():\n    a = R.exp(x)\n    b = R.sin(a)\n    out = a\n"
            "    R.output(b, out)\n"
            "return (b, out)"
        ),
        (
            "with R.dataflow():\n    out = R.exp(x)\n    b = R.sin(out)\n    R.output(b, out)\n"
            "return (b, out)"
        ),
    ),
    "a second output is another name of the first": (
        (
            "with R.dataflow():\n    a = R.exp(x)\n    p = a\n    q = a\n    R.output(p, q)\n"
            "return (p, q)"
        ),
        "with R.dataflow():\n    p = R.exp(x)\n    R.output(p)\nreturn (p, p)",
    ),
    "an output takes the place of what it takes from a tuple": (
        (
            "with R.dataflow():\n    a = R.exp(x)\n    t = (a, x)\n    b = t[0]\n    out = b\n"
            "    u = R.sin(out)\n    R.output(out, u)\n"
            "return (out, u)"
        ),
        (
            "with R.dataflow():\n    out = R.exp(x)\n    t = (out, x)\n    u = R.sin(out)\n"
            "    R.output(out, u)\n"
            "return (out, u)"
        ),
    ),
    "an output takes the place of what it takes itself from a tuple": (
        (
            "with R.dataflow():\n    a = R.exp(x)\n    t = (a, x)\n    out = t[0]\n"
            "    R.output(out)\n"
            "return out"
        ),
        ("with R.dataflow():\n    out = R.exp(x)\n    t = (out, x)\n    R.output(out)\nreturn out"),
    ),
    "what only a block sees is taken from the tuple that it is in": (
        (
            "with R.dataflow():\n    a = R.exp(x)\n    t = (a, x)\n    R.output(t)\n"
            "b = t[0]\nc = R.add(b, t[1])\nreturn c"
        ),
        (
            "with R.dataflow():\n    a = R.exp(x)\n    t = (a, x)\n    R.output(t)\n"
            "b = t[0]\nc = R.add(b, x)\nreturn c"
        ),
    ),
    "an output that names a parameter goes": (
        "with R.dataflow():\n    out = x\n    R.output(out)\nreturn out",
        "return x",
    ),
    "what stands around a block that goes is one block": (
        "a = R.exp(x)\nwith R.dataflow():\n    b = a\n    R.output(b)\nc = R.sin(b)\nreturn c",
        "a = R.exp(x)\nc = R.sin(a)\nreturn c",
    ),
    "the fields of a known tuple are used directly": (
        "e = R.exp(x)\nt = (x, (e, x))\na = t[1]\nb = a[0]\nc = R.add(b, t[0])\nreturn c",
        "e = R.exp(x)\nt = (x, (e, x))\nc = R.add(e, x)\nreturn c",
    ),
    "a constant is used where its name is": (
        "c = R.const(2.0, 'float32')\ny = R.multiply(x, c)\nreturn y",
        "y = R.multiply(x, R.const(2.0, 'float32'))\nreturn y",
    ),
    "a cast to the type that a value has goes": (
        "y = R.match_cast(x, R.Tensor((3,), 'float32'))\nz = R.exp(y)\nreturn z",
        "z = R.exp(x)\nreturn z",
    ),
    "dimensions that casts define are those of their values": (
        (
            "m = T.int64()\nn = T.int64()\ny = R.match_cast(x, R.Tensor((m,), 'float32'))\n"
            "e = R.exp(y)\nz = R.match_cast(e, R.Tensor((n,), 'float32'))\n"
            "t = R.broadcast_to(z, (2 * n, m))\nreturn t"
        ),
        "e = R.exp(x)\nt = R.broadcast_to(e, (6, 3))\nreturn t",
    ),
    "an output that nothing behind its block uses is seen by the block alone": (
        ("with R.dataflow():\n    a = R.exp(x)\n    b = R.sin(a)\n    R.output(a, b)\nreturn b"),
        "with R.dataflow():\n    a = R.exp(x)\n    b = R.sin(a)\n    R.output(b)\nreturn b",
    ),
    "branches are walked": (
        (
            "c = R.const(True, 'bool')\ny = x\nif c:\n    a = y\n    r = R.exp(a)\n"
            "else:\n    r = R.sin(y)\nreturn r"
        ),
        "if R.const(True, 'bool'):\n    r = R.exp(x)\nelse:\n    r = R.sin(x)\nreturn r",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_canonical_form(name: str) -> None:
    before, after = (parse(text) for text in CASES[name])
    canonical = CanonicalizeBindings()(before)
    assert_structural_equal(canonical, after)
    assert CanonicalizeBindings()(canonical) is canonical


ONE = 'x: R.Tensor(ndim=1, dtype="float32")'
CANONICAL = {
    "one binding": ("y = R.exp(x)\nreturn y", X),
    "a block": ("with R.dataflow():\n    a = R.exp(x)\n    R.output(a)\nreturn a", X),
    "a tuple": ("t = (x, x)\nreturn t", X),
    "a declared type that says more": (
        "y: R.Tensor((3,), 'float32') = x\nz = R.exp(y)\nreturn z",
        ONE,
    ),
    "a cast that says more": (
        "m = T.int64()\ny = R.match_cast(x, R.Tensor((m,), 'float32'))\nz = R.exp(y)\nreturn z",
        ONE,
    ),
    "a dimension that two casts define": (
        (
            "n = T.int64()\nif c:\n    a = R.match_cast(x, R.Tensor((n,), 'float32'))\n"
            "    r = R.sum(a)\nelse:\n    b = R.match_cast(y, R.Tensor((n,), 'float32'))\n"
            "    r = R.max(b)\nreturn r"
        ),
        'c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32"), y: R.Tensor((2,), "float32")',
    ),
}


@pytest.mark.parametrize(("body", "params"), CANONICAL.values(), ids=CANONICAL)
def test_what_is_canonical_stays_the_same_module(body: str, params: str) -> None:
    module = parse(body, params)
    assert CanonicalizeBindings()(module) is module


def test_a_cast_that_a_run_refuses_stays() -> None:
    module = parse(
        "m = T.int64()\ny = R.match_cast(x, R.Tensor((m, m), 'float32'))\nz = R.exp(y)\nreturn z",
        'x: R.Tensor(("a", "b"), "float32")',
    )
    canonical = CanonicalizeBindings()(module)
    assert "R.match_cast(x, R.Tensor((a, a)" in canonical.script()
    well_formed(canonical)
