"""What builds functions, where TVM has it."""

from relaxjax.ir import BlockBuilder as BlockBuilder
