"""Convolutions as a CPU computes them fast: tables of forms, and the forms themselves.

`convolution` and `transposed_convolution` hold the tables. `benchmarks/operators.py` compares the
forms with XLA's own, and `docs/performance_choices.md` tells what each gains.
"""
