"""Convolutions and their gradients, at contiguous pixels: ``conv`` chooses, ``forward`` and ``weights`` drive.

``plan`` and ``layout`` say how an image is cut and where its copy lies, ``pack`` makes the copy, ``tile`` and ``pixels`` are the
inner loops, ``epilogue`` stores. Input gradients are convolutions themselves by the time they come here.
"""
