"""Casts at their uses."""

from parsing import main_text
from rewriting import check_kept, check_rewrite

from relaxjax.passes import CanonicalizeCast


def main(body: str, dtype: str = "float16") -> str:
    return main_text(body, x=f'R.Tensor((3,), "{dtype}")', c='R.Tensor((), "bool")')


def test_each_call_has_a_widening_cast_of_its_own() -> None:
    check_rewrite(
        CanonicalizeCast(),
        main(
            'w = R.astype(x, "float32")\ny = R.multiply(w, w)\nif c:\n    a = R.exp(w)\nelse:\n'
            "    a = R.sin(w)\nreturn (a, y)"
        ),
        main(
            'w = R.astype(x, "float32")\ny = R.multiply(w, w)\nif c:\n'
            '    w1 = R.astype(x, "float32")\n    a = R.exp(w1)\nelse:\n'
            '    w2 = R.astype(x, "float32")\n    a = R.sin(w2)\nreturn (a, y)'
        ),
    )


def test_casts_that_narrow_are_shared() -> None:
    check_kept(
        CanonicalizeCast(),
        main('w = R.astype(x, "float16")\ny = R.exp(w)\nz = R.sin(w)\nreturn (y, z)', "float32"),
    )
    check_kept(CanonicalizeCast(), main('w = R.astype(x, "float32")\ny = R.exp(w)\nreturn (w, y)'))


def test_casts_of_casts_are_one_where_nothing_is_lost() -> None:
    check_rewrite(
        CanonicalizeCast(),
        main(
            'a = R.astype(x, "float32")\nb = R.astype(a, "float64")\nd = R.astype(a, "float16")\n'
            "return (b, d)"
        ),
        main('b = R.astype(x, "float64")\nreturn (b, x)'),
    )
    check_kept(
        CanonicalizeCast(),
        main('a = R.astype(x, "int32")\nb = R.astype(a, "float32")\nreturn b', "float32"),
    )
    check_kept(
        CanonicalizeCast(),
        main('a = R.astype(x, "float64")\nb = R.astype(a, "int64")\nreturn b', "int64"),
    )
