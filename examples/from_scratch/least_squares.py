"""Least squares in many ways: normal equations, QR, lstsq, polyfit, ridge, descent; and Gauss-Newton for a curve."""
import random

import numpy as np


def design(x, degree):
    return np.vander(x, degree + 1, increasing=True)


def normal_equations(A, b):
    return np.linalg.solve(A.T @ A, A.T @ b)


def by_qr(A, b):
    Q, R = np.linalg.qr(A)
    y = Q.T @ b
    n = R.shape[0]
    w = np.zeros(n)
    for i in range(n - 1, -1, -1):  # back substitution
        w[i] = (y[i] - R[i, i + 1:] @ w[i + 1:]) / R[i, i]
    return w


def ridge(A, b, alpha):
    return np.linalg.inv(A.T.dot(A) + alpha * np.eye(A.shape[1])).dot(A.T).dot(b)


def descent(A, b, steps):
    w = np.zeros(A.shape[1])
    lr = 1 / np.linalg.norm(A, 2) ** 2
    for _ in range(steps):
        w -= lr * (A.T @ (A @ w - b))
    return w


def gauss_newton(x, y, p, steps):
    """y = a exp(-k x) + c"""
    p = np.array(p, dtype=float)
    for _ in range(steps):
        a, k, c = p
        e = np.exp(-k * x)
        J = np.column_stack((e, -a * x * e, np.ones_like(x)))
        p += np.linalg.pinv(J) @ (y - (a * e + c))
    return p


def main(n=80, degree=3, steps=400):
    random.seed(9)
    x = np.linspace(-1, 1, n)
    noise = np.array([random.gauss(0, 0.1) for _ in range(n)])
    y = 0.5 - 2 * x + 1.5 * x**3 + noise

    A = design(x, degree)
    w, residuals, rank, singular = np.linalg.lstsq(A, y, rcond=None)
    found = {
        "normal": normal_equations(A, y), "qr": by_qr(A, y), "lstsq": w, "polyfit": np.polyfit(x, y, degree)[::-1],
        "ridge": ridge(A, y, 0.1), "descent": descent(A, y, steps),
    }
    for name, value in found.items():
        print(f"{name:8s}", np.array2string(np.asarray(value), precision=3))

    fitted = A @ w
    r2 = 1 - np.sum((y - fitted) ** 2) / np.sum((y - y.mean()) ** 2)
    sigma2 = residuals[0] / (n - rank)
    errors = np.sqrt(np.diag(sigma2 * np.linalg.inv(A.T @ A)))
    t = np.linspace(0, 3, n)
    curve = gauss_newton(t, 2.5 * np.exp(-1.3 * t) + 0.4 + noise / 10, (2, 1, 0), 8)
    outliers = np.abs(y - fitted) > 2 * np.std(y - fitted)
    print("r2 %.4f, rank %d, standard errors" % (r2, rank), np.around(errors, 3), "outliers", np.flatnonzero(outliers))
    print("curve: %.2f exp(-%.2f x) + %.2f" % tuple(curve))
    return {**found, "r2": r2, "rank": rank, "singular": singular, "errors": errors, "curve": curve, "outliers": outliers}


if __name__ == "__main__":
    main()
