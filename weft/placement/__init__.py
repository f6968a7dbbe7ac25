"""Which device pays: what a program would take on each, estimated from figures that are measured once.

``machine`` holds a device's figures, ``estimate`` what a program takes there, ``choose`` compares and says why.
"""
