"""GalleryOrder: the gallery's pages in the order of their use to a newcomer."""

from __future__ import annotations

from pathlib import Path

PAGES = (
    "digits", "characters", "gpt", "vae", "diffusion", "physics", "spiral", "clusters", "cart_pole", "transfer", "gan",
    "segmentation", "graph", "words", "formats", "ranks",
)


class GalleryOrder:
    """Sort key of files, for sphinx-gallery. The build fails for a file that is not listed."""

    def __init__(self, source: str) -> None:
        self.source = source

    def __call__(self, file: str) -> int:
        return PAGES.index(Path(file).stem)
