"""Where the bytes go, as people read it."""
