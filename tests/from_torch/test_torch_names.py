"""Operators of PyTorch under their other names, and those that write to an argument `out`."""

import sys
import types
from typing import Any

import numpy as np
import pytest
from aten_results import slopes, value

from relaxjax import from_torch, to_jax
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Var
from relaxjax.ir.types import TensorType
from relaxjax.torch import TorchImportError
from relaxjax.torch.aten import TABLE
from relaxjax.torch.aten.aliases import _NAMES
from relaxjax.torch.aten.table import known
from relaxjax.torch.interpreter import Interpreter
from relaxjax.torch.program import Graph, Node, Ref, SubGraph, TensorMeta
from relaxjax.torch.sizes import Sizes

RANDOM = np.random.default_rng(0)
X, Y = (RANDOM.normal(size=(3, 4)).astype("float32") for _ in range(2))
Z: Any = (X + 1j * Y).astype("complex64")
META = TensorMeta("float32", (3, 4), (3, 4), (4, 1), False)

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ("absolute.default", (X,), {}, abs(X)),
    ("arctan2.default", (X, Y), {}, np.arctan2(X, Y)),
    ("divide.Tensor_mode", (X, Y), {"rounding_mode": "floor"}, X // Y),
    ("moveaxis.int", (X,), {"source": 0, "destination": 1}, X.T),
    ("special_softmax.default", (X,), {"dim": 0}, np.exp(X) / np.exp(X).sum(0)),
    ("slogdet.default", (X[:3, :3],), {}, np.sign(np.linalg.det(X[:3, :3]))),
    ("swapaxes.default", (X,), {"axis0": 0, "axis1": -1}, X.T),
    ("ravel.default", (X,), {}, X.ravel()),
    ("adjoint.default", (X,), {}, X.T),
    ("mH.default", (Z,), {}, Z.conj().T),
    ("matrix_H.default", (Z,), {}, Z.conj().T),
    ("vdot.default", (Z[0], Z[1]), {}, np.vdot(Z[0], Z[1])),
    ("vdot.default", (X[0], X[1]), {}, np.vdot(X[0], X[1])),
    ("linalg_vecdot.default", (Z, X), {}, (Z.conj() * X).sum(-1)),
    ("isreal.default", (X,), {}, np.isreal(X)),
    ("isreal.default", (Z - 1j * Y,), {}, np.isreal(Z - 1j * Y)),
    ("fft_hfft.default", (Z,), {}, np.fft.hfft(Z)),
    ("fft_hfft.default", (Z,), {"n": 5, "dim": 0, "norm": "forward"},
     np.fft.hfft(Z, 5, 0, "forward")),
    ("fft_ihfft.default", (X,), {}, np.fft.ihfft(X)),
    ("fft_ihfft.default", (X,), {"dim": 0, "norm": "ortho"}, np.fft.ihfft(X, axis=0, norm="ortho")),
    ("trapz.dx", (X,), {"dx": 0.5}, np.trapezoid(X, dx=0.5)),
    ("trapezoid.x", (X, Y), {"dim": 0}, np.trapezoid(X, Y, axis=0)),
    ("trapezoid.x", (X, Y[:, 0]), {"dim": 0}, np.trapezoid(X, Y[:, 0], axis=0)),
    ("cumulative_trapezoid.dx", (X,), {"dim": 0},
     np.cumsum((X[1:] + X[:-1]) / 2, 0)),
    ("cumulative_trapezoid.x", (X, Y[0]), {},
     np.cumsum((X[:, 1:] + X[:, :-1]) / 2 * np.diff(Y[0]), 1)),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CASES)), ids=[case[0] for case in CASES])
def test_an_operator_beside_numpy(case: int) -> None:
    name, given, options, wanted = CASES[case]
    np.testing.assert_allclose(value(name, *given, **options), wanted, rtol=2e-5, atol=1e-5)


def test_an_adjoint_of_complex_numbers_has_the_adjoint_of_a_conjugate() -> None:
    """Of the imaginary part of an adjoint, whose sign is turned."""

    def turned(real: Any, imag: Any) -> Any:
        return TABLE["aten.imag.default"].rule(
            TABLE["aten.mH.default"].rule(TABLE["aten.complex.default"].rule(real, imag))
        )

    real, imag = slopes(turned, X, Y)
    np.testing.assert_array_equal(real, np.zeros_like(X))
    np.testing.assert_array_equal(imag, -np.ones_like(X))


@pytest.mark.parametrize("name", _NAMES)
def test_a_name_stands_for_all_overloads_of_another(name: str) -> None:
    others = [one for one in TABLE if one.split(".")[1] == _NAMES[name]]
    assert others
    for target in others:
        other = f"aten.{name}.{target.split('.', 2)[2]}"
        assert known(other)


def test_sequences_are_padded_on_either_side() -> None:
    rule: Any = TABLE["aten.pad_sequence.default"].rule

    def padded(*sequences: Any, **options: Any) -> Any:
        return value(lambda *given: rule(list(given), **options), *sequences)

    zeros = np.zeros((1, 4), "float32")
    np.testing.assert_array_equal(padded(X[:2], X), np.stack([np.vstack([X[:2], zeros]), X], 1))
    left = padded(X[:2], X, batch_first=True, padding_value=-1.0, padding_side="left")
    np.testing.assert_array_equal(left, np.stack([np.vstack([zeros - 1, X[:2]]), X]))


def ran(node: Node, **given: Any) -> Any:
    """What `x` is after an operator, and the result of that."""
    builder = BlockBuilder()
    params = [Var(name, TensorType(one.shape, str(one.dtype))) for name, one in given.items()]
    with builder.function("main", params):
        with builder.dataflow():
            reader = Interpreter(builder, Sizes())
            for param in params:
                reader.bind(param.name, param)
            reader.run(Graph((), (node,), (), {"r": META}))
            found = [builder.emit_output(reader.read(Ref(name))) for name in ("x", "r")]
        builder.emit_func_output(found)
    return to_jax(builder.get(), "main")(*given.values())


@pytest.mark.parametrize(("target", "wanted"), [("div.out", X / Y), ("abs.out", abs(X))])
def test_a_result_is_written_to_the_argument_out(target: str, wanted: Any) -> None:
    first = {"self": Ref("y"), "other": Ref("z")} if target == "div.out" else {"self": Ref("y")}
    node = Node(f"aten.{target}", {**first, "out": Ref("x")}, ("r",))
    for found in ran(node, x=np.zeros_like(X), y=X, z=Y):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_an_overload_that_writes_what_is_not_known_is_not_known() -> None:
    assert known("aten.mul.out")
    assert not known("aten.nothing.out")


def test_autocast_that_is_off_changes_nothing() -> None:
    inner = Graph((Ref("a"),), (Node("aten.neg.default", {"self": Ref("a")}, ("b",)),),
                  (Ref("b"),), {"a": META, "b": META})  # fmt: skip
    arguments = {"0": "cpu", "1": "bfloat16", "2": False, "3": None, "4": SubGraph(inner)}
    node = Node("higher_order.wrap_with_autocast", {**arguments, "5": Ref("x")}, (("r",),))
    _, found = ran(node, x=X)
    np.testing.assert_array_equal(found, -X)


def _refuse_to_save(monkeypatch: pytest.MonkeyPatch, error: Exception) -> Any:
    """A program, while PyTorch writes none."""

    def save(program: object, file: object) -> None:
        raise error

    fake = types.ModuleType("torch.export")
    fake.save = save  # type: ignore[attr-defined]  # of a module that is made here
    monkeypatch.setitem(sys.modules, "torch.export", fake)
    return type("ExportedProgram", (), {"__module__": "torch.export.exported_program"})()


def test_results_that_torch_cannot_write_are_an_error_with_what_to_give(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = NotImplementedError("No registered serialization name for <class 'topk'> found.")
    match = r"PyTorch cannot write .*'topk'> found\. Take and give .* `values, places = x\.topk"
    with pytest.raises(TorchImportError, match=match):
        from_torch(_refuse_to_save(monkeypatch, error))


def test_operators_that_torch_cannot_write_are_an_error_with_what_to_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = type("SerializeError", (RuntimeError,), {})
    message = "Failed serializing node flex_attention in graph: %flex_attention : [num_users=3]"
    match = r"cannot write the program: Failed serializing node flex_attention\. Say it in other"
    with pytest.raises(TorchImportError, match=match):
        from_torch(_refuse_to_save(monkeypatch, error(message)))
    with pytest.raises(RuntimeError, match="no space left"):
        from_torch(_refuse_to_save(monkeypatch, RuntimeError("no space left")))
