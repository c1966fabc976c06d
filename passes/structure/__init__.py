"""The form of a program: its bindings, blocks and functions."""
