"""Convolutions and their gradients over contiguous pixels: ``conv`` matches kernels, ``forward`` and ``weights`` generate them.

``tiling`` and ``layout`` define the blocks of an image and the layout of their copies, ``pack`` and ``pixels`` copy, ``tile`` has
the inner loops, ``epilogue`` the stores. Input gradients arrive here as convolutions.
"""
