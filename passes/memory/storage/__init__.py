"""Models of memory: where what a program computes is stored, and from when to when."""
