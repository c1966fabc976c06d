"""Where the axes of tensors lie, and what is folded along them."""
