"""Operators of Relax that stay as they are when a module is legalised, and still are plain JAX."""

from collections.abc import Callable

from .writing import Writing, call


def _attribute(name: str) -> Callable[[Writing], str]:
    return lambda writing: f"{writing.texts[0]}.{name}"


def _helper(name: str) -> Callable[[Writing], str]:
    """A function that the program takes along."""

    def form(writing: Writing) -> str:
        named = writing.named() if writing.attrs.get("format") else []
        return call(name, *writing.texts, *named)

    return form


RELAX_FORMS: dict[str, Callable[[Writing], str]] = {
    "relax.shape_of": _attribute("shape"),
    "relax.shape_to_tensor": lambda writing: call("jnp.array", *writing.texts, "jnp.int64"),
    "relax.null_value": lambda writing: "None",
    "relax.print": _helper("show"),
    "relax.assert_op": _helper("require"),
}
