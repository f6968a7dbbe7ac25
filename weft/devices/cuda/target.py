"""A GPU as the scheduler sees it."""

from __future__ import annotations

from weft.kernel.target import ChainLimits, Target

# channels_last: 8 channels of 16 bits are 16 bytes, the widest load. relaying: a card moves some MB in the 2 us of a launch.
GPU = Target(
    "gpu", precisions=frozenset(("tf32", "tf32x3")), algorithms=frozenset(), fast_unordered=True, channels_last=8,
    relaying=4 << 20, chains=ChainLimits(widest=128, max_bits=32, min_bits=16), skips_copies=False, tallies=False,
    splits_effects=False, unpacking_rows=0,
)
