"""Operators written as other operators."""
