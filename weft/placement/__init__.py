"""Choose the device for a program, from measured figures of each device.

``device_figures`` holds the figures of one device, ``all_figures`` those of every usable device. ``work`` counts what a kernel
computes, ``estimate`` computes the time of a program from both, and ``choose`` compares devices and states the reason.
"""
