"""Long lines of Python broken the way that formatters of Python break them."""

import ast

WIDTH = 100
INDENT = "    "


def broken(statement: str, indent: str = "") -> list[str]:
    """The lines of a statement; one that is too long is broken inside its brackets."""
    if len(indent) + len(statement) <= WIDTH:
        return [indent + statement]
    if statement.startswith("def "):
        return _definition(statement, indent)
    node = ast.parse(statement).body[0]
    assert isinstance(node, ast.Assign | ast.Expr | ast.Return)
    assert node.value is not None
    head = statement.encode()[: node.value.col_offset].decode()  # Python counts in bytes
    return _Broken(statement).expression(node.value, head, "", indent)


def commented(text: str, indent: str) -> str:
    """A comment of one line, cut off where it is too long."""
    line = f"{indent}# {text}"
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..."


def _definition(statement: str, indent: str) -> list[str]:
    """The head of a function: its parameters on one line of their own, or each on its own."""
    name, _, rest = statement.partition("(")
    params = rest.removesuffix("):").split(", ")
    inner = indent + INDENT
    joined = f"{inner}{', '.join(params)}"
    fits = len(joined) <= WIDTH and len(params) > 1
    lines = [joined] if fits else [f"{inner}{param}," for param in params]
    return [f"{indent}{name}(", *lines, f"{indent}):"]


class _Broken:
    """One statement, whose parts are broken into lines; `text` is all of it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def expression(self, node: ast.expr, head: str, tail: str, indent: str) -> list[str]:
        """The lines of `head`, an expression, and `tail`."""
        whole = f"{indent}{head}{self.source(node)}{tail}"
        if len(whole) <= WIDTH:
            return [whole]
        match node:
            case ast.Call(func=func):
                start, items, end = f"{self.source(func)}(", self.arguments(node), ")"
            case ast.Tuple(elts=elements):
                start, items, end = "(", [("", item) for item in elements], ")"
            case ast.List(elts=elements):
                start, items, end = "[", [("", item) for item in elements], "]"
            case _:
                return [whole]
        if not items:
            return [whole]
        inner = indent + INDENT
        lines = [f"{indent}{head}{start}"]
        joined = inner + ", ".join(f"{name}{self.source(item)}" for name, item in items)
        if isinstance(node, ast.Call) and len(joined) <= WIDTH:
            lines.append(joined)
        else:
            for name, item in items:
                lines += self.expression(item, name, ",", inner)
        return [*lines, f"{indent}{end}{tail}"]

    def arguments(self, call: ast.Call) -> list[tuple[str, ast.expr]]:
        """The arguments of a call, each with the `name=` before it."""
        named = [(f"{item.arg}=", item.value) for item in call.keywords]
        return [*(("", item) for item in call.args), *named]

    def source(self, node: ast.expr) -> str:
        found = ast.get_source_segment(self.text, node)
        assert found is not None
        return found
