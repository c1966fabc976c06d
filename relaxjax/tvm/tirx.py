"""Symbolic sizes and arithmetic on them, all of the script's `T`, by the table of names."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relaxjax.script.tirx import *  # noqa: F403
