"""The passes, all of `relaxjax.passes`, by the table of names."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relaxjax.passes import *  # noqa: F403
