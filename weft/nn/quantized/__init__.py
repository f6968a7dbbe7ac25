"""Arrays and layers whose numbers are codes with scales: integers of 4 and 8 bits, small floats, block formats.

``array`` has the record of codes and scales, ``linear`` and ``layers`` multiply by it, and ``model``
replaces the layers of a model.
"""
