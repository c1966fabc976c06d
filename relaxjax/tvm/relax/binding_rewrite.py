"""Changing the bindings of a block by hand, where TVM has it."""

from relaxjax.passes import DataflowBlockRewrite as DataflowBlockRewrite
