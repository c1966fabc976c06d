"""Which operators of a program are known, and what to do about those that are not."""

from collections import Counter, defaultdict
from collections.abc import Container

from .aten.places import INSTEAD
from .aten.table import known
from .chosen import BY_MASK
from .errors import TorchImportError
from .program import Graph, nodes_of

_OURS = ("aten.", "higher_order.")  # the namespaces of PyTorch's own operators
_MOST_LINES = 3


def check_known(name: str, graph: Graph, others: Container[str]) -> None:
    """Raise where operators are neither known nor `others`: one error for all, with their lines."""
    counts: Counter[str] = Counter()
    lines: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for node, _ in nodes_of(graph):
        if known(node.target) or node.target in others or node.target == BY_MASK:
            continue
        counts[node.target] += 1
        if node.span is not None:
            lines[node.target][f"{node.span.file}:{node.span.line}"] = None
    if not counts:
        return
    rows = []
    for target, count in counts.most_common():
        places = list(lines[target])
        more = f", and {len(places) - _MOST_LINES} other lines" if len(places) > _MOST_LINES else ""
        where = f", at {', '.join(places[:_MOST_LINES])}{more}" if places else ""
        instead = INSTEAD.get(target.split(".")[1]) if target.startswith(_OURS) else None
        mend = "" if instead is None else f"; {instead}"
        rows.append(f"  {target}, {count} time{'s' if count > 1 else ''}{where}{mend}")
    listed = "\n".join(rows)
    raise TorchImportError(
        f"`{name}` uses operators of PyTorch that are not known here:\n{listed}\n"
        "Say it in other operators, or give `program.run_decompositions()`, which spells many of "
        "them out, but forgets `detach` and `no_grad`"
    )
