"""Calls of JAX's functions whose name or arguments are not those of the primitive."""

from collections.abc import Callable, Sequence

from relaxjax.ir.types import FuncType, TensorType
from relaxjax.ir.wording import tuple_text
from relaxjax.ops.lax.avals import KEY_IMPLEMENTATIONS

from .functions import bound_text, function_text
from .literals import dtype_text, value_text
from .writing import Form, Operand, Writing, call


def _broadcast_in_dim(writing: Writing) -> str | None:
    """`lax.full` of a number, `lax.broadcast` of a scalar, `lax.expand_dims` for lengths of 1."""
    (x,) = writing.operands
    shape, places = writing.attrs["shape"], writing.attrs["broadcast_dimensions"]
    if x.number is not None:
        return call("lax.full", writing.value("shape"), x.number, dtype_text(x.dtype))
    if not places:
        return call("lax.broadcast", x.text, writing.value("shape"))
    added = tuple(axis for axis in range(len(shape)) if axis not in places)
    kept = tuple(shape[place] for place in places)
    same = isinstance(x.type, TensorType) and kept == x.type.dims
    if same and added and all(shape[axis] == 1 for axis in added):
        return call("lax.expand_dims", x.text, value_text(added, writing.symbol))
    return None


def _dot_general(writing: Writing) -> str | None:
    """`x @ y` for vectors, matrices and stacks of matrices."""
    x, y = writing.operands
    stacks = tuple(range(max(x.ndim, y.ndim) - 2))
    plain = {
        "dimension_numbers": (((x.ndim - 1,), (max(y.ndim - 2, 0),)), (stacks, stacks)),
        "preferred_element_type": x.dtype,
    }
    if dict(writing.attrs) != plain or x.dtype != y.dtype:
        return None
    if stacks and not (x.ndim == y.ndim and _stays_stacked(x) and _stays_stacked(y)):
        return None
    arrays = x.is_array and y.is_array and is_promoted(x.dtype) and x.dtype != "bool"
    return f"{x.text} @ {y.text}" if arrays else None


def _stays_stacked(x: Operand) -> bool:
    """Whether `@` multiplies a stack of matrices as such: of one, it takes the only matrix out."""
    assert isinstance(x.type, TensorType)
    return all(isinstance(dim, int) and dim != 1 for dim in (x.type.dims or ())[:-2])


def _convert_element_type(writing: Writing) -> str | None:
    """`x.astype(dtype)`, where the method means no more by it than the primitive."""
    (x,) = writing.operands
    plain = not x.dtype.startswith("complex") and writing.attrs["new_dtype"] != "bool"
    return f"{x.text}.astype({writing.value('new_dtype')})" if x.is_array and plain else None


def _select_n(writing: Writing) -> str | None:
    """`lax.select(condition, if true, if false)` for a choice between two."""
    which, *cases = writing.operands
    if len(cases) != 2 or which.dtype != "bool":
        return None
    return call("lax.select", which.text, cases[1].text, cases[0].text)


def _along_one_axis(writing: Writing) -> str:
    (axis,) = writing.attrs["axes"]
    return call(f"lax.{writing.name}", *writing.texts, f"axis={axis}", *writing.named("axes"))


def _of_a_sequence(writing: Writing) -> str:
    return call(f"lax.{writing.name}", writing.listed, *writing.named())


def _iota(writing: Writing) -> str:
    shape = writing.attrs["shape"]
    if len(shape) == 1:
        return call("lax.iota", writing.value("dtype"), value_text(shape[0], writing.symbol))
    return call("lax.broadcasted_iota", *map(writing.value, ("dtype", "shape", "dimension")))


def _dynamic_slice(writing: Writing) -> str:
    x, *starts = writing.texts
    sizes = writing.value("slice_sizes")
    return call("lax.dynamic_slice", x, tuple_text(starts), sizes, _FROM_THE_START)


def _dynamic_update_slice(writing: Writing) -> str:
    x, update, *starts = writing.texts
    return call("lax.dynamic_update_slice", x, update, tuple_text(starts), _FROM_THE_START)


# The primitives count from the start only; the functions count negative places from the end.
_FROM_THE_START = "allow_negative_indices=False"


def _conv_general_dilated(writing: Writing) -> str | None:
    """A convolution with its layouts as letters, `("NCHW", "OIHW", "NCHW")`."""
    numbers = writing.attrs["dimension_numbers"]["ConvDimensionNumbers"]
    layouts = tuple_text(
        [
            _layout(numbers["lhs_spec"], "NC"),
            _layout(numbers["rhs_spec"], "OI"),
            _layout(numbers["out_spec"], "NC"),
        ]
    )
    counts = [a for a in writing.attrs if a.endswith("count") and writing.attrs[a] == 1]
    dilations = [a for a in writing.attrs if a.endswith("dilation") and _is_ones(writing, a)]
    named = writing.named("dimension_numbers", *counts, *dilations)
    return call("lax.conv_general_dilated", *writing.texts, *named, f"dimension_numbers={layouts}")


def _layout(places: Sequence[int], first: str) -> str:
    """Where each dimension stands: two by their letters, then the spatial ones in their order."""
    spatial = "DHW"[-(len(places) - 2) :] if 2 < len(places) < 6 else "0123456789"
    letters = dict(zip(places, [*first, *spatial], strict=False))
    return f'"{"".join(letters[place] for place in range(len(places)))}"'


def _is_ones(writing: Writing, attr: str) -> bool:
    return set(writing.attrs[attr]) <= {1}


def _reduce_window(function: str, start: Callable[[str], str]) -> Form:
    """`lax.reduce_window` with a function, and the value that changes nothing under it."""

    def form(writing: Writing) -> str:
        (x,) = writing.operands
        first = f"np.array({start(x.dtype)}, {dtype_text(x.dtype)})"
        dilations = [a for a in writing.attrs if a.endswith("dilation") and _is_ones(writing, a)]
        named = writing.named(*dilations)
        return call("lax.reduce_window", x.text, first, f"lax.{function}", *named)

    return form


def _lowest(dtype: str) -> str:
    return "-jnp.inf" if _is_inexact(dtype) else _limit(dtype, "min")


def _highest(dtype: str) -> str:
    return "jnp.inf" if _is_inexact(dtype) else _limit(dtype, "max")


def _limit(dtype: str, end: str) -> str:
    return str(end == "max") if dtype == "bool" else f"jnp.iinfo({dtype_text(dtype)}).{end}"


def _is_inexact(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def _eigh(writing: Writing) -> str | None:
    """The primitive takes a matrix as it is; the function symmetrizes it unless told not to."""
    attrs = {**writing.attrs, "symmetrize_input": False}
    return function_text(
        Writing(writing.name, writing.operands, attrs, writing.type, writing.symbol)
    )


def _of_keys(function: str) -> Form:
    """A function of jax.random on keys, one or many."""
    return lambda writing: call(f"jax.random.{function}", *writing.texts)


def _of_one_key(function: str, *attrs: str) -> Form:
    """A function of jax.random that takes no array of keys."""

    def form(writing: Writing) -> str | None:
        if writing.operands[0].ndim:
            return None
        return call(f"jax.random.{function}", *writing.texts, *map(writing.value, attrs))

    return form


def _random_bits(writing: Writing) -> str | None:
    dtype = f"jnp.uint{writing.attrs['bit_width']}"
    shape, (key,) = writing.value("shape"), writing.operands
    return None if key.ndim else call("jax.random.bits", key.text, shape, dtype)


def _new_keys(function: str) -> Form:
    def form(writing: Writing) -> str | None:
        implementation = writing.attrs["impl"]["PRNGImpl"]
        if implementation not in KEY_IMPLEMENTATIONS:
            return None
        return call(f"jax.random.{function}", *writing.texts, f'impl="{implementation}"')

    return form


def _name(writing: Writing) -> str:
    return call("checkpoint_name", *writing.texts, writing.value("name"))


def _dim_as_value(writing: Writing) -> str:
    return call("jnp.array", writing.value("dim"), writing.value("dtype"))


def _sparse_product(writing: Writing) -> str | None:
    """A matrix of compressed rows times a matrix: `sparse.BCSR((...), shape=...) @ x`."""
    if writing.attrs["dimension_numbers"] != (((1,), (0,)), ((), ())):
        return None
    *parts, dense = writing.texts
    shape = writing.attrs["lhs_spinfo"]["SparseInfo"]["shape"]
    size = f"shape={value_text(shape, writing.symbol)}"
    return f"{call('sparse.BCSR', tuple_text(parts), size)} @ {dense}"


def _scan(writing: Writing) -> str:
    """A loop is a function that the program takes along, under the dialect's own arguments."""
    usual = {"reverse": False, "unroll": 1}
    left_out = [attr for attr, value in usual.items() if writing.attrs.get(attr) == value]
    return call("scan", *writing.texts, *writing.named(*left_out))


def _while_loop(writing: Writing) -> str:
    condition = writing.operands[0].type
    assert isinstance(condition, FuncType)
    assert isinstance(condition.ret, TensorType)
    helper = "while_any" if condition.ret.ndim else "while_loop"
    return call(helper, *writing.texts, *writing.named())


def _reduce(writing: Writing) -> str:
    combine, *values = writing.texts
    half = len(values) // 2
    sides = tuple_text(values[:half]), tuple_text(values[half:])
    folded = f"lambda left, right: {combine}(*left, *right)"
    return call("lax.reduce", *sides, folded, writing.value("dimensions"))


def _switch(writing: Writing) -> str:
    index, *rest = writing.operands
    functions, operands = _apart(rest)
    return call("lax.switch", index.text, tuple_text(functions), *operands)


def _platform_dependent(writing: Writing) -> str:
    functions, operands = _apart(writing.operands)
    chosen = zip(writing.attrs["platforms"], functions, strict=True)
    named = [f"{name}={f}" for names, f in chosen for name in names or ("default",)]
    return call("lax.platform_dependent", *operands, *named)


def _apart(operands: Sequence[Operand]) -> tuple[list[str], list[str]]:
    """The functions among some operands, and the others."""
    functions = [item.text for item in operands if isinstance(item.type, FuncType)]
    return functions, [item.text for item in operands if not isinstance(item.type, FuncType)]


FORMS: dict[str, Form] = {
    "argmax": _along_one_axis,
    "argmin": _along_one_axis,
    "bcsr_dot_general": _sparse_product,
    "broadcast_in_dim": _broadcast_in_dim,
    "cholesky": bound_text,  # the function clears one triangle
    "concatenate": _of_a_sequence,
    "conv_general_dilated": _conv_general_dilated,
    "convert_element_type": _convert_element_type,
    "copy": lambda writing: call("jnp.copy", *writing.texts),
    "dim_as_value": _dim_as_value,
    "dot_general": _dot_general,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "eigh": _eigh,
    "iota": _iota,
    "name": _name,
    "optimization_barrier": _of_a_sequence,
    "platform_dependent": _platform_dependent,
    "random_bits": _random_bits,
    "random_clone": _of_keys("clone"),
    "random_fold_in": _of_one_key("fold_in"),
    "random_seed": _new_keys("key"),
    "random_split": _of_one_key("split", "shape"),
    "random_unwrap": _of_keys("key_data"),
    "random_wrap": _new_keys("wrap_key_data"),
    "reduce": _reduce,
    "reduce_window_max": _reduce_window("max", _lowest),
    "reduce_window_min": _reduce_window("min", _highest),
    "reduce_window_sum": _reduce_window("add", lambda dtype: "0"),
    "scan": _scan,
    "select_n": _select_n,
    "sort": _of_a_sequence,
    "stack": _of_a_sequence,
    "svd": bound_text,  # the function gives its results in another order
    "switch": _switch,
    "while_loop": _while_loop,
}


_ARITHMETIC = {"add": "+", "add_any": "+", "sub": "-", "mul": "*", "div": "/"}
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_BITWISE = {"and_": "&", "or_": "|", "xor": "^"}
_SIGNS = _ARITHMETIC | _COMPARISONS | _BITWISE
_UNARY = {"neg": "-", "not_": "~"}
_INEXACT = ("float", "bfloat", "complex")
_PROMOTED = (*_INEXACT, "bool", "int", "uint")
_NOT_PROMOTED = ("float8", "float4", "int2", "int4", "uint2", "uint4")


def operator_text(call: Writing) -> str | None:
    """`x + y` and the like; None where Python's operator would mean something else, or nothing."""
    if call.attrs or not all(is_promoted(operand.dtype) for operand in call.operands):
        return None
    match call.operands:
        case [x] if call.name in _UNARY and x.is_array:
            return f"{_UNARY[call.name]}{x.text}"
        case [x, y] if call.name in _SIGNS and x.dtype == y.dtype:
            left, right = x.number or x.text, y.number or y.text
            return f"{left} {_SIGNS[call.name]} {right}" if _means_it(call.name, x, y) else None
    return None


def is_promoted(dtype: str) -> bool:
    """Whether JAX lets the numbers of Python take this dtype beside an array of it."""
    return dtype.startswith(_PROMOTED) and not dtype.startswith(_NOT_PROMOTED)


def _means_it(name: str, x: Operand, y: Operand) -> bool:
    sides = [side.is_array or side.number is not None for side in (x, y)]
    if not all(sides) or not (x.is_array or y.is_array):
        return False  # two constants would meet in Python or numpy, not in JAX
    if name in _COMPARISONS:
        # Python turns `0.0 < x` round; and JAX orders complex numbers, which the primitives do not.
        return x.is_array and (name in ("eq", "ne") or not x.dtype.startswith("complex"))
    if name in _ARITHMETIC:
        return x.dtype != "bool" and (name != "div" or x.dtype.startswith(_INEXACT))
    return True
