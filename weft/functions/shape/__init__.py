"""Axes, joining and splitting, broadcasting."""
