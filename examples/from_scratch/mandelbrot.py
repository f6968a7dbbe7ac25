"""The Mandelbrot set: how soon each point of the plane escapes, and the area of those that stay."""
import numpy as np


def mandelbrot(xmin, xmax, ymin, ymax, width, height, max_iter, horizon=2.0):
    x = np.linspace(xmin, xmax, width)
    y = np.linspace(ymin, ymax, height)
    C = x + y[:, None] * 1j
    N = np.zeros(C.shape, dtype=int)
    Z = np.zeros(C.shape, complex)
    for n in range(max_iter):
        inside = np.less(abs(Z), horizon)
        N[inside] = n
        Z[inside] = Z[inside] ** 2 + C[inside]
    N[N == max_iter - 1] = 0
    return Z, N


def julia(c, size, max_iter):
    Y, X = np.ogrid[-1.5:1.5:size * 1j, -1.5:1.5:size * 1j]
    z = X + 1j * Y
    steps = np.full(z.shape, max_iter)
    alive = np.ones(z.shape, dtype=bool)
    for i in range(max_iter):
        z = np.where(alive, z * z + c, z)
        gone = alive & (z.real**2 + z.imag**2 > 4)
        steps[gone] = i
        alive &= ~gone
    return steps


def main(width=120, height=80, max_iter=24):
    Z, N = mandelbrot(-2.25, 0.75, -1.25, 1.25, width, height, max_iter)
    with np.errstate(invalid="ignore", divide="ignore"):
        smooth = np.nan_to_num(N + 1 - np.log2(np.log(np.abs(Z))), nan=0.0, posinf=0.0, neginf=0.0)
    escaped = N > 0
    area = 3.0 * 2.5 * np.mean(~escaped)
    J = julia(-0.4 + 0.6j, height, max_iter)

    shades = " .:-=+*#%@"
    for row in N[::8, ::3]:
        print("".join(shades[min(int(v) * len(shades) // max_iter, 9)] for v in row))
    print("area: %.3f; of Julia's set: %.3f" % (area, (J == max_iter).mean()))
    return {
        "counts": N, "smooth": smooth * (escaped & (N < 8)), "area": area, "julia": J,
        "shades": np.histogram(N, bins=6, range=(0, max_iter))[0],
    }


if __name__ == "__main__":
    main()
