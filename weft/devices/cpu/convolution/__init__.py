"""Convolutions and their gradients: ``conv`` matches kernels and chooses their generator.

``forward`` computes convolutions and input gradients with vectors of pixels, ``filter_weights`` weight gradients with vectors of
filters, and ``weights`` those of few filters or columns with vectors of pixels. ``tiling`` defines the blocks of an image and the
layout of their copies, ``pack`` copies, ``tile`` has the inner loops, ``epilogue`` the stores. Input gradients arrive here as
convolutions.

Where the user permits it, ``pairs`` makes ``forward`` and ``filter_weights`` multiply pairs of bfloat16.

Where the user permits it, ``winograd_forward`` and ``winograd_weights`` compute the same with fewer multiplications.
``winograd_transform`` has the matrices and the estimate that decides; ``winograd`` transforms images.

The weight gradient sums where its pixels lie; its order (None in the kernel language) is the generator's and fixed by kernel
and CPU. Its operands are stored first, never read through a move or a cast: otherwise an operation alone would have other bits
than a fused program.
"""
