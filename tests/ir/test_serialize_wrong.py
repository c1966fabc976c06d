"""Documents that are wrong, cut off or bombs: each is a ValueError that says where."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from full import how_many
from hypothesis import given, settings
from hypothesis import strategies as st

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.dims import SymbolicVar
from relaxjax.ir.expr import ShapeExpr, Tuple, Var, const
from relaxjax.ir.function import Function, SeqExpr
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import Node
from relaxjax.ir.serialize import load_json, save_json
from relaxjax.ir.span import Span
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.ir.types import ObjectType, TensorType

N, M = SymbolicVar("n"), SymbolicVar("m")
TY = TensorType((N, 2), "float32")
X = Var("x", TY)


def loaded(node: Node, **options: Any) -> Any:
    return load_json(save_json(node, **options))


# Documents that are wrong


def document(*nodes: Any, root: Any = None, **head: Any) -> str:
    table = {"format": "relaxjax", "version": 1, "nodes": list(nodes)}
    return json.dumps({**table, "root": len(nodes) - 1 if root is None else root, **head})


NAME = {"kind": "Var", "name": "x"}
DIMENSION = {"kind": "SymbolicVar", "name": "n"}


def ref(number: Any) -> dict[str, Any]:
    return {"ref": number}


def constant(dtype: Any = "float32", shape: Any = (1,), data: bytes = b"\0" * 4) -> dict[str, Any]:
    text = base64.b64encode(data).decode()
    return {"kind": "Constant", "dtype": dtype, "shape": list(shape), "data": text}


def test_the_documents_below_would_be_right() -> None:
    assert isinstance(load_json(document(NAME)), Var)
    assert load_json(document(constant())) == const([0.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the text is no JSON, or cut off"),
        (document(NAME)[:-5], "the text is no JSON, or cut off"),
        (b"\xff\xfe\xff", "codec can't decode"),
        ("[" * 100_000, "the document is nested too deeply"),
        ('{"a": NaN}', "NaN is no JSON: a float that JSON has no number for is written as text"),
        ("3", "the text is no saved IR: it must be an object with `format` 'relaxjax'"),
        (document(NAME, format="other"), "the text is no saved IR"),
        (
            '{"root_index": 1, "nodes": []}',
            "print the module there by",
        ),
        (document(NAME, version=2), "`version` must be 1, the one this reads; found 2"),
        (document(NAME, extra=2), "a document has no field `extra`"),
        (document(NAME, nodes=3), "a document must have a `root` and a list of `nodes`"),
        (document(NAME, root=1), "`root` must be the number of a node, found 1"),
        (document(NAME, root="x"), "`root` must be the number of a node, found 'x'"),
        (document(NAME, root=True), "`root` must be the number of a node, found True"),
        (document(root=0), "`root` must be the number of a node, found 0"),
        (document(DIMENSION), "the root must be a node, found a SymbolicVar"),
    ],
)
def test_a_wrong_document_is_an_error(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_json(text)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (3, "node 2: it must be an object with a `kind`"),
        ({"kind": 3}, "node 2: it must be an object with a `kind`"),
        ({"kind": "Vaar"}, "node 2: there is no kind of node `Vaar`"),
        ({**NAME, "colour": 1}, r"node 2 \(Var\): it has no field `colour`"),
        ({"kind": "Var"}, r"\(Var\): its field `name` is missing: it must be a string"),
        ({"kind": "Var", "name": 3}, "`name` must be a string, found a value of type int"),
        ({**NAME, "ty": ref(0)}, "its field `ty` must be a type, found a value of type Var"),
        ({**NAME, "ty": ref(2)}, "it refers to node 2, but only to nodes before it may it refer"),
        ({**NAME, "ty": ref(9)}, "it refers to node 9, but"),
        ({**NAME, "ty": ref(-1)}, "it refers to node -1, but"),
        ({**NAME, "ty": ref("0")}, "it refers to node '0', but"),
        ({**NAME, "ty": ref(True)}, "it refers to node True, but"),
        ({**NAME, "ty": {"ref": 0, "a": 1}}, "there is no value with the fields"),
        ({**NAME, "ty": {"float": "1e5"}}, "there is no value with the fields"),
        ({**NAME, "ty": {}}, "there is no value with the fields"),
        ({**NAME, "span": ["f.py", 1]}, r"its `span` must be \[file, line, column, end_line"),
        ({**NAME, "span": ["f.py", 1, 0, "a", None]}, "its `span` must be"),
        ({"kind": "Op", "name": "relax.ad"}, r"no operator `relax.ad`; did you mean `relax.add`"),
        (
            {"kind": "Tuple", "fields": [ref(1)]},
            "its field `fields` must be a tuple, each item an expression",
        ),
        ({"kind": "TupleGetItem", "tuple_value": ref(0), "index": True}, "must be an integer"),
        ({"kind": "TensorType", "shape": [1.5], "ndim": 1}, "must be a tuple of dimensions"),
        ({"kind": "TensorType", "shape": [1], "ndim": 2}, "`ndim` is 2, but `shape` has 1 dimen"),
        ({"kind": "TensorType", "ndim": 10**9}, "must be an integer from -1 to 255"),
        ({"kind": "DimOp", "lhs": 1, "rhs": 1}, "its field `operator` is missing"),
        ({"kind": "Function", "params": [ref(0)]}, "its field `body` is missing"),
        ({"kind": "IRModule", "functions": [["f", ref(0)]]}, "must be pairs of a name and a func"),
        (
            {"kind": "DimExpr", "terms": [[[[ref(1), 65]], 1]]},
            "must be pairs of a monomial and a coefficient",
        ),
        ({"kind": "DimExpr", "terms": [[[[3, 1]], 1]]}, "must be pairs of a monomial"),
        (
            {"kind": "PrimExpr", "value": "1", "dtype": "int64"},
            "must be a number, a flag or a dimension",
        ),
        (constant(shape=(2,)), r"float32 \(2,\) takes 8 bytes, found 4"),
        (constant(shape=(10**20,)), "takes 4" + "0" * 20 + " bytes, found 4"),
        (constant(shape=(-1, -1)), "a shape has no negative sizes"),
        (constant(dtype="float33"), "there is no dtype `float33`"),
        (constant(dtype="O"), "there is no dtype `O` for tensors"),
        (constant(dtype="f4"), "there is no dtype `f4`: write `float32`"),
        (constant(dtype="str"), "there is no dtype `str` for tensors"),
        ({**constant(), "data": "????"}, "the data is no base64"),
        ({**constant(), "data": "AAA"}, "the data is no base64"),
        (constant(shape=(0, 10**30), data=b""), r"node 2 \(Constant\): "),
    ],
)
def test_a_wrong_node_is_an_error_that_says_which(node: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_json(document(NAME, DIMENSION, node))


def test_wrong_dimensions_are_errors() -> None:
    text = document(DIMENSION, {"kind": "DimOp", "operator": "//", "lhs": ref(0), "rhs": 0})
    with pytest.raises(ValueError, match=r"node 1 \(DimOp\): the dimension `n` is divided by zero"):
        load_json(text)
    text = document(DIMENSION, {"kind": "DimOp", "operator": "**", "lhs": ref(0), "rhs": 2})
    with pytest.raises(ValueError, match="its field `operator` must be one of //, %, max, min"):
        load_json(text)


def test_functions_of_one_name_and_wrong_infos_are_errors() -> None:
    nothing: Any = {"attrs": {}}
    extern = {"kind": "ExternFunc", "symbol": "f", "attrs": nothing}
    module = {"kind": "IRModule", "attrs": nothing, "global_infos": nothing}
    twice = {**module, "functions": [["f", ref(0)], ["f", ref(0)]]}
    with pytest.raises(ValueError, match="two functions have the same name"):
        load_json(document(extern, twice))
    infos = {**module, "functions": [], "global_infos": {"attrs": {"a": 1}}}
    with pytest.raises(ValueError, match="each item of `global_infos` must be a tuple"):
        load_json(document(infos))


# Documents that are bombs


def tower(count: int, layer: Callable[[int], Any], ground: Any) -> str:
    return document(ground, *(layer(index) for index in range(count)))


def test_depth_is_bounded() -> None:
    tall = tower(100_000, lambda i: {"kind": "Tuple", "fields": [ref(i)]}, NAME)
    with pytest.raises(ValueError, match=r"node 150 \(Tuple\): it is nested more than 150 nodes"):
        load_json(tall)


@pytest.mark.parametrize(
    ("kind", "ground"), [("Tuple", NAME), ("TupleType", {"kind": "ObjectType"})]
)
def test_what_unfolds_without_end_is_stopped(kind: str, ground: Any) -> None:
    bomb = tower(60, lambda i: {"kind": kind, "fields": [ref(i), ref(i)]}, ground)
    with pytest.raises(ValueError, match=r"node 23 .*it unfolds into more than 10000000 nodes"):
        load_json(bomb)


def test_dimensions_that_unfold_without_end_are_stopped() -> None:
    def layer(index: int) -> Any:
        return {"kind": "DimOp", "operator": "%", "lhs": ref(index), "rhs": ref(index)}

    with pytest.raises(ValueError, match="unfolds into more than"):
        load_json(tower(60, layer, DIMENSION))


def test_deep_values_are_stopped() -> None:
    value: Any = 1
    for _ in range(60):
        value = [value]
    with pytest.raises(ValueError, match=r"node 0 \(Call\): a value is nested more than 32 deep"):
        load_json(document({"kind": "Call", "op": value}))


# Fuzzing

VALID = save_json(
    IRModule(
        {
            "main": Function(
                (X,),
                SeqExpr((), Tuple((X + X, const([1.0, 2.0]), ShapeExpr((N * 2 + 1, N // 3))))),
                ObjectType(),
                attrs=Attrs(note=(1, (2.5, "a"))),
                span=Span("m.py", 3),
            )
        },
        {"a": [1, float("nan")]},
    )
)
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 40)
    | st.floats()
    | st.sampled_from(["", "Var", "%"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["ref", "attrs", "kind", "name"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of everything inside a JSON value."""
    inside: list[Any] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    below = [place for key, item in inside for place in paths(item, (*path, key))]
    return [(*path, key) for key, _ in inside] + below


PLACES = paths(json.loads(VALID))


def loads_or_says_why(text: str | bytes) -> None:
    try:
        node = load_json(text)
    except ValueError:
        return
    assert_structural_equal(loaded(node), node, map_free_vars=True)


@given(st.data())
@settings(max_examples=how_many(150, 3000))
def test_a_changed_document_loads_or_is_a_value_error(data: st.DataObject) -> None:
    """Parts are replaced by junk, by other parts, or removed."""
    changed = json.loads(VALID)
    for _ in range(data.draw(st.integers(1, 3))):
        *around, last = data.draw(st.sampled_from(PLACES))
        holder: Any = changed
        try:
            for key in around:
                holder = holder[key]
            if data.draw(st.booleans()):
                holder[last] = data.draw(JUNK)
            else:
                del holder[last]
        except (KeyError, IndexError, TypeError):
            pass  # the place went with an earlier change
    loads_or_says_why(json.dumps(changed))


@given(st.integers(0, len(VALID)), st.binary(max_size=3), st.integers(0, 5))
@settings(max_examples=200)
def test_changed_bytes_load_or_are_a_value_error(at: int, junk: bytes, cut: int) -> None:
    text = VALID.encode()
    loads_or_says_why(text[:at] + junk + text[at + cut :])


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_document_is_a_value_error(share: float) -> None:
    with pytest.raises(ValueError, match="the text is no JSON, or cut off"):
        load_json(VALID[: int(len(VALID) * share)])


def test_a_document_is_text() -> None:
    with pytest.raises(TypeError, match="`load_json` takes JSON text, but `None` was given"):
        load_json(None)  # type: ignore[arg-type]  # what is tested
