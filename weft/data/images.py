"""image_folder: a data set of the images in a folder, one subfolder for each class; a Loader reads them batch by batch."""

from __future__ import annotations

import operator
import os
from pathlib import Path
from typing import Any

import numpy as np

from weft.data.labels import LabelEncoder
from weft.errors import DataError, ShapeError
from weft.functions.support.arguments import integer_from
from weft.process.distribution import install_command
from weft.process.docstrings import complete_module

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


class ImageFolder:
    """The data set that :func:`image_folder` returns: ``folder[i]`` is (image, label).

    Attributes
    ----------
    files : list of Path
    y : (N,) int64, the label of each file
    labels : LabelEncoder of the names of the subfolders
    """

    def __init__(self, files: list[Path], names: list[str], size: tuple[int, int] | None, grayscale: bool) -> None:
        self.files, self.size, self.grayscale = files, size, grayscale
        self.labels = LabelEncoder()
        self.y = self.labels.fit_transform(names)
        self._shape: tuple[int, ...] | None = None  # of the images, if there is no size

    def __len__(self) -> int:
        return len(self.files)

    def __repr__(self) -> str:
        return f"ImageFolder({len(self)} images, {len(self.labels.classes_)} classes)"

    def __getitem__(self, i: Any) -> tuple[np.ndarray, int]:
        i = operator.index(i)
        return self._read(self.files[i]), int(self.y[i])

    def load(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all images, (N, C, H, W) float32, and labels, (N,) int64.

        Raises
        ------
        DataError
            A file is no image; sizes differ and none was given.
        """
        first = self._read(self.files[0])
        x = np.empty((len(self), *first.shape), np.float32)
        for k, path in enumerate(self.files):
            x[k] = self._read(path)
        return x, self.y

    def _read(self, path: Path) -> np.ndarray:
        """Return an image as (C, H, W) float32 in [0, 1]."""
        from PIL import Image, ImageOps

        try:
            with Image.open(path) as file:
                mode = file.mode
                image = ImageOps.exif_transpose(file).convert("L" if self.grayscale else "RGB")
                if self.size is not None:
                    image = image.resize(self.size[::-1], Image.Resampling.BILINEAR)
                pixels = np.asarray(image, np.float32)
        except Exception as error:  # Pillow raises errors of many classes for damaged files
            raise DataError(f"{path} is damaged or no image: {error}") from error
        if mode[0] in "IF":
            raise DataError(f"{path} has pixels of more than 8 bits (Pillow's mode {mode!r}): convert it to 8 bits first")
        image_array = (pixels[None] if self.grayscale else pixels.transpose(2, 0, 1)) / np.float32(255)
        if self._shape is None:
            self._shape = image_array.shape
        if image_array.shape != self._shape:
            both = f"{image_array.shape[1:]}, other images {self._shape[1:]}"
            raise DataError(f"{path} has height and width {both}: give image_folder a size=(height, width)")
        return image_array


def image_folder(path: str | os.PathLike, size: Any = None, *, grayscale: bool = False) -> ImageFolder:
    """Return the images below a folder as a data set; the name of each subfolder is a class. Needs Pillow.

    Images are read when they are needed, turned as their EXIF data say, and scaled to [0, 1]. Nothing else is changed without a
    ``size``. Files are sorted by path; hidden files and those that are no images by their ending are left out.

    Parameters
    ----------
    path : folder, with one subfolder for each class
    size : (height, width) or one int for both, optional
        The size to which images are resized, by linear interpolation over all pixels, without regard to their proportions.
    grayscale : bool
        Whether images have one channel instead of three.

    Returns
    -------
    ImageFolder
        For :class:`weft.data.Loader`; ``folder[i]`` is ((C, H, W) float32, int), ``folder.load()`` all of it as arrays.

    Raises
    ------
    ShapeError, TypeError, ValueError
        ``size`` is neither two positive integers nor one.
    DataError
        There is no such folder, or a subfolder has no images. Reading raises it for a damaged file, and for images of several
        sizes without ``size``; the message names the file.
    ImportError
        Pillow is not installed.

    Examples
    --------
    >>> import numpy as np, weft as wf, tempfile, pathlib
    >>> from PIL import Image
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("cat", "dog"):
    ...     (root / name).mkdir()
    ...     Image.fromarray(np.zeros((8, 8), "uint8")).save(root / name / "1.png")
    >>> folder = wf.data.image_folder(root, size=4)
    >>> folder, folder[1][0].shape, folder.labels.classes_.tolist()
    (ImageFolder(2 images, 2 classes), (3, 4, 4), ['cat', 'dog'])
    >>> x, y = next(iter(wf.data.Loader(folder, batch_size=2)))
    >>> x.shape, y.tolist()
    ((2, 3, 4, 4), [0, 1])
    """
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise ImportError(f"image_folder needs Pillow: {install_command('data')}") from None
    if size is not None:
        pair = size if isinstance(size, tuple | list) else (size, size)
        if len(pair) != 2:
            raise ShapeError(f"image_folder: size must be (height, width) or one int, not {size!r}")
        size = tuple(int(integer_from(1, n, "image_folder", "size")) for n in pair)
    root = Path(path)
    if not root.is_dir():
        raise DataError(f"image_folder: {root} is {'a file' if root.exists() else 'missing'}, but must be a folder")
    folders = sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not folders:
        raise DataError(f"image_folder: {root} has no subfolders: images of a class belong into a subfolder of its name")
    files, names = [], []
    for folder in folders:
        images = [p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file()]
        found = sorted(p for p in images if not any(part.startswith(".") for part in p.relative_to(root).parts))
        if not found:
            raise DataError(f"image_folder: {folder} has no images ({', '.join(SUFFIXES)})")
        files += found
        names += [folder.name] * len(found)
    return ImageFolder(files, names, size, bool(grayscale))


complete_module(globals())
