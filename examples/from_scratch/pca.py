"""Principal components: by the covariance's eigenvectors, by the singular values, and by power iteration."""
import random

import numpy as np


def standardize(X):
    mu, sigma = X.mean(axis=0), X.std(axis=0, ddof=1)
    return (X - mu) / sigma, mu, sigma


def fix_signs(components):
    """The largest entry of each row is positive."""
    largest = np.argmax(np.abs(components), axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    return components * signs[:, np.newaxis]


def pca_eig(X, k):
    cov = np.cov(X, rowvar=False)
    values, vectors = np.linalg.eigh(cov)
    order = np.argsort(values)[::-1]
    values, vectors = values[order], vectors[:, order]
    return fix_signs(vectors[:, :k].T), values / np.sum(values)


def pca_svd(X, k):
    U, S, Vt = np.linalg.svd(X - X.mean(0), full_matrices=False)
    return fix_signs(Vt[:k]), S**2 / (len(X) - 1)


def power_iteration(C, n_iter=100):
    v = np.random.rand(C.shape[0])
    for _ in range(n_iter):
        v = C @ v
        v /= np.linalg.norm(v)
    return v, v.T @ C @ v


def main(n=150, features=5, k=2):
    random.seed(8)
    hidden = np.array([[random.gauss(0, 3), random.gauss(0, 1)] for _ in range(n)])
    mix = np.array([[random.uniform(-1, 1) for _ in range(features)] for _ in range(2)])
    noise = np.array([random.gauss(0, 0.2) for _ in range(n * features)]).reshape((n, features))
    X = hidden @ mix + noise + np.arange(features)

    Z, mu, sigma = standardize(X)
    components, ratio = pca_eig(Z, k)
    again, variances = pca_svd(Z, k)
    first, value = power_iteration(np.corrcoef(X.T))
    projected = Z.dot(components.T)
    restored = (projected @ components) * sigma + mu
    error = np.sqrt(np.mean((X - restored) ** 2))
    print("explained:", np.round(ratio, 3), "in all", np.cumsum(ratio)[k - 1].round(3))
    print("two ways differ by %.1e, power iteration's eigenvalue %.4f" % (np.abs(components - again).max(), value))
    print("error of restoring from %d numbers: %.3f" % (k, error))
    return {
        "components": components, "ratio": ratio, "variances": variances, "projected": projected, "restored": restored,
        "first": np.abs(first), "value": value, "error": error,
    }


if __name__ == "__main__":
    main()
