"""Operators of Relax that stay as they are when a module is legalised, and still are plain JAX."""

from collections.abc import Callable

from relaxjax.ir.dtypes import DLPACK_CODES

from .writing import Form, Writing, call


def _attribute(name: str) -> Callable[[Writing], str]:
    return lambda writing: f"{writing.texts[0]}.{name}"


def _helper(name: str) -> Callable[[Writing], str]:
    """A function that the program takes along."""

    def form(writing: Writing) -> str:
        empty = [attr for attr, value in writing.attrs.items() if value == ""]
        return call(name, *writing.texts, *writing.named(*empty))

    return form


def _scan(writing: Writing) -> str:
    usual = {"length": None, "reverse": False, "unroll": 1}
    left_out = [attr for attr, value in usual.items() if writing.attrs.get(attr) == value]
    return call("lax.scan", *writing.texts, *writing.named(*left_out, "checkpoint"))


def _while_loop(writing: Writing) -> str:
    return call("bounded_loop", *writing.texts, *writing.named("checkpoint"))


def _itself(writing: Writing) -> str:
    """The argument, which a program of one device has where it is."""
    return writing.texts[0]


def _spread(text: str) -> list[str]:
    """The items of a tuple as arguments."""
    if not text.startswith("("):
        return [f"*{text}"]
    inner = text[1:-1].removesuffix(",")
    return [inner] if inner else []


def _make_closure(writing: Writing) -> str:
    function, args = writing.texts
    return f"lambda *first: {call(function, '*first', *_spread(args))}"


def _invoke_closure(writing: Writing) -> str:
    closure, args = writing.texts
    return call(closure, *_spread(args))


def _dtype_code(part: int) -> Callable[[Writing], str | None]:
    """A number that DLPack has for a dtype, where the dtype is known."""

    def form(writing: Writing) -> str | None:
        code = DLPACK_CODES.get(writing.operands[0].dtype)
        return None if code is None else str(code[part])

    return form


def _stride(writing: Writing) -> str:
    tensor, axis = writing.texts
    behind = int(axis) + 1 if axis.isdecimal() else f"{axis} + 1"
    return f"math.prod({tensor}.shape[{behind}:])"


RELAX_FORMS: dict[str, Form] = {
    "relax.shape_of": _attribute("shape"),
    "relax.inspect.tensor_ndim": _attribute("ndim"),
    "relax.inspect.tensor_shape_i": lambda writing: "{}.shape[{}]".format(*writing.texts),
    "relax.inspect.tensor_stride_i": _stride,
    "relax.inspect.tensor_byte_offset": lambda writing: "0",
    "relax.inspect.tensor_elem_offset": lambda writing: "0",
    "relax.inspect.tensor_dtype_code": _dtype_code(0),
    "relax.inspect.tensor_dtype_bits": _dtype_code(1),
    "relax.inspect.tensor_dtype_lanes": lambda writing: "1",
    "relax.shape_to_tensor": lambda writing: call("jnp.array", *writing.texts, "jnp.int64"),
    "relax.null_value": lambda writing: "None",
    "relax.print": _helper("show"),
    "relax.assert_op": _helper("require"),
    "relax.scan": _scan,
    "relax.while_loop": _while_loop,
    "relax.to_vdevice": _itself,
    "relax.hint_on_device": _itself,
    "relax.builtin.stop_lift_params": _itself,
    "relax.make_closure": _make_closure,
    "relax.invoke_closure": _invoke_closure,
    "relax.invoke_pure_closure": _invoke_closure,
}
