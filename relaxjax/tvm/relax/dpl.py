"""The dataflow pattern language, all of `relaxjax.dpl`, by the table of names."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relaxjax.dpl import *  # noqa: F403
