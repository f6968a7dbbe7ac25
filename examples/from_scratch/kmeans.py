"""k-means: clusters of points in the plane, started as k-means++ does."""
import random

import numpy as np


class KMeans:
    def __init__(self, n_clusters=4, max_iter=50, tol=1e-6):
        self.n_clusters, self.max_iter, self.tol = n_clusters, max_iter, tol

    def _distances(self, X):
        return ((X[:, np.newaxis, :] - self.centers[np.newaxis]) ** 2).sum(axis=2)

    def _start(self, X):
        chosen = [random.randrange(len(X))]
        for _ in range(1, self.n_clusters):
            d2 = np.min(((X[:, None] - X[chosen]) ** 2).sum(-1), axis=1)
            cumulative = np.cumsum(d2 / d2.sum())
            chosen.append(int(np.searchsorted(cumulative, random.random())))
        return X[chosen].copy()

    def fit(self, X):
        self.centers = self._start(X)
        for i in range(self.max_iter):
            self.n_iter = i + 1
            labels = np.argmin(self._distances(X), axis=1)
            new = np.empty_like(self.centers)
            for k in range(self.n_clusters):
                members = X[labels == k]
                new[k] = members.mean(axis=0) if len(members) else self.centers[k]
            shift = np.linalg.norm(new - self.centers)
            self.centers = new
            if shift < self.tol:
                break
        self.labels = np.argmin(self._distances(X), axis=1)
        self.inertia = self._distances(X).min(axis=1).sum()
        return self


def silhouette(X, labels):
    d = np.sqrt(np.maximum(((X[:, None] - X[None]) ** 2).sum(-1), 0))
    score = np.zeros(len(X))
    for i in range(len(X)):
        same = labels == labels[i]
        same[i] = False
        a = d[i, same].mean()
        b = min(d[i, labels == k].mean() for k in np.unique(labels) if k != labels[i])
        score[i] = (b - a) / max(a, b)
    return score.mean()


def main(points=240, clusters=4, seed=7):
    random.seed(seed)
    angle = 2 * np.pi * np.arange(clusters) / clusters
    middles = 5 * np.column_stack([np.cos(angle), np.sin(angle)])
    X = np.vstack([m + np.array([[random.gauss(0, 0.8) for _ in range(2)] for _ in range(points // clusters)]) for m in middles])

    model = KMeans(clusters).fit(X)
    order = np.lexsort((model.centers[:, 1], model.centers[:, 0]))
    sizes = np.bincount(model.labels, minlength=clusters)[order]
    score = silhouette(X[::3], model.labels[::3])
    print("centers\n", model.centers[order].round(2))
    print("sizes", sizes, "inertia %.2f, silhouette %.3f, %d iterations" % (model.inertia, score, model.n_iter))
    return {
        "centers": model.centers[order], "sizes": sizes, "labels": model.labels, "inertia": model.inertia, "silhouette": score,
        "iterations": model.n_iter,
    }


if __name__ == "__main__":
    main()
