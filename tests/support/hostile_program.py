"""A program whose names and files try to be read as parts of a page."""

from relaxjax.explorer.document import Document, Hunk, Line, Place, Source, Stage

HOSTILE = "</script><script>window.broken = true</script><img src=x onerror=window.broken=true>"
LONG = "x" * 10_000


def hostile_document() -> Document:
    """All that a page shows is out of somebody else's text, and none of it is plain."""
    lines = (
        Line("@R.function"),
        Line(f"    a{HOSTILE}: R.Tensor((2,)) = R.add({LONG}, b)", f"a{HOSTILE}", 0, None, 3, 4),
        Line("    😀_adjoint = R.exp({{title}})", "😀_adjoint", 0, f"a{HOSTILE}", 5, 6),
        Line('    return "\u2028 \ud800 & <b>"'),
    )
    stage = Stage(
        HOSTILE, HOSTILE, 1.0, 0, (HOSTILE,), {HOSTILE: (Hunk(0, 0, ((0, 4),)),)}, (), 2, 8, 10
    )
    source = Source(HOSTILE, (f"{HOSTILE} 😀", LONG))
    return Document(
        HOSTILE, (source,), (Place(0, 1, 0),), lines, (stage,), HOSTILE, None, (HOSTILE,)
    )
