"""Which form computes attention on a CPU: by blocks of scores where there are many of them."""

from relaxjax.ops.nn.long_attention import Limits, LongAttention

# Blocks pay from so many scores of a head on. The caches hold those that are computed at a time.
ON_CPU = LongAttention(
    Limits(of_a_head=2**22, of_all=0, fewest=512, at_a_time=2**21, largest=512), chunked=True
)
