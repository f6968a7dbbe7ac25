"""Word vectors: CBOW with negative sampling and Adam, on a text of a few sentences."""
import random
from collections import Counter

import numpy as np

SENTENCES = (
    "the king rules the land . the queen rules the land . the man works the field . the woman works the field . "
    "the king is a man . the queen is a woman . you say goodbye and i say hello . you say hello and i say goodbye . "
)


def preprocess(text):
    word_to_id, id_to_word = {}, {}
    for word in text.split():
        if word not in word_to_id:
            new_id = len(word_to_id)
            word_to_id[word] = new_id
            id_to_word[new_id] = word
    corpus = np.array([word_to_id[w] for w in text.split()])
    return corpus, word_to_id, id_to_word


def create_contexts_target(corpus, window_size=1):
    target = corpus[window_size:-window_size]
    contexts = []
    for idx in range(window_size, len(corpus) - window_size):
        cs = []
        for t in range(-window_size, window_size + 1):
            if t == 0:
                continue
            cs.append(corpus[idx + t])
        contexts.append(cs)
    return np.array(contexts), np.array(target)


class UnigramSampler:
    def __init__(self, corpus, power, sample_size):
        self.sample_size = sample_size
        counts = Counter(int(word) for word in corpus)
        self.vocab_size = len(counts)
        self.word_p = np.zeros(self.vocab_size)
        for i in range(self.vocab_size):
            self.word_p[i] = counts[i]
        self.word_p = np.power(self.word_p, power)
        self.word_p /= np.sum(self.word_p)

    def get_negative_sample(self, target):
        batch_size = target.shape[0]
        negative_sample = np.zeros((batch_size, self.sample_size), dtype=np.int32)
        for i in range(batch_size):
            p = self.word_p.copy()
            p[target[i]] = 0
            negative_sample[i, :] = random.choices(range(self.vocab_size), weights=p.tolist(), k=self.sample_size)
        return negative_sample


class Embedding:
    def __init__(self, W):
        self.params = [W]
        self.grads = [np.zeros_like(W)]

    def forward(self, idx):
        self.idx = idx
        return self.params[0][idx]

    def backward(self, dout):
        dW, = self.grads
        dW[...] = 0
        np.add.at(dW, self.idx, dout)


class EmbeddingDot:
    def __init__(self, W):
        self.embed = Embedding(W)
        self.params, self.grads = self.embed.params, self.embed.grads

    def forward(self, h, idx):
        target_W = self.embed.forward(idx)
        self.cache = h, target_W
        return np.sum(target_W * h, axis=1)

    def backward(self, dout):
        h, target_W = self.cache
        dout = dout.reshape(dout.shape[0], 1)
        self.embed.backward(dout * h)
        return dout * target_W


class NegativeSamplingLoss:
    def __init__(self, W, corpus, power=0.75, sample_size=3):
        self.sample_size = sample_size
        self.sampler = UnigramSampler(corpus, power, sample_size)
        self.dots = [EmbeddingDot(W) for _ in range(sample_size + 1)]
        self.params = [p for layer in self.dots for p in layer.params]
        self.grads = [g for layer in self.dots for g in layer.grads]

    def forward(self, h, target):
        negative = self.sampler.get_negative_sample(target)
        loss, self.errors = 0, []
        for i, layer in enumerate(self.dots):
            score = layer.forward(h, target if i == 0 else negative[:, i - 1])
            label = 1.0 if i == 0 else 0.0
            y = 1 / (1 + np.exp(-score))
            loss += -np.mean(label * np.log(y + 1e-7) + (1 - label) * np.log(1 - y + 1e-7))
            self.errors.append((y - label) / len(target))
        return loss

    def backward(self):
        return sum(layer.backward(error) for layer, error in zip(self.dots, self.errors))


class CBOW:
    def __init__(self, vocab_size, hidden_size, window_size, corpus):
        def randn():
            return 0.01 * np.array([[random.gauss(0, 1) for _ in range(hidden_size)] for _ in range(vocab_size)])

        W_in, W_out = randn(), randn()
        self.in_layers = [Embedding(W_in) for _ in range(2 * window_size)]
        self.ns_loss = NegativeSamplingLoss(W_out, corpus)
        self.params, self.grads = [], []
        for layer in self.in_layers + [self.ns_loss]:
            self.params += layer.params
            self.grads += layer.grads
        self.word_vecs = W_in

    def forward(self, contexts, target):
        h = 0
        for i, layer in enumerate(self.in_layers):
            h += layer.forward(contexts[:, i])
        h *= 1 / len(self.in_layers)
        return self.ns_loss.forward(h, target)

    def backward(self):
        dout = self.ns_loss.backward()
        dout *= 1 / len(self.in_layers)
        for layer in self.in_layers:
            layer.backward(dout)


def remove_duplicate(params, grads):
    """One gradient for each array that several layers share."""
    params, grads = params[:], grads[:]
    i = 0
    while i < len(params):
        for j in range(len(params) - 1, i, -1):
            if params[i] is params[j]:
                grads[i] = grads[i] + grads[j]
                params.pop(j)
                grads.pop(j)
        i += 1
    return params, grads


class Adam:
    def __init__(self, lr=0.001, beta1=0.9, beta2=0.999):
        self.lr, self.beta1, self.beta2, self.iter, self.m = lr, beta1, beta2, 0, None

    def update(self, params, grads):
        if self.m is None:
            self.m = [np.zeros_like(param) for param in params]
            self.v = [np.zeros_like(param) for param in params]
        self.iter += 1
        lr_t = self.lr * np.sqrt(1.0 - self.beta2**self.iter) / (1.0 - self.beta1**self.iter)
        for i in range(len(params)):
            self.m[i] += (1 - self.beta1) * (grads[i] - self.m[i])
            self.v[i] += (1 - self.beta2) * (grads[i]**2 - self.v[i])
            params[i] -= lr_t * self.m[i] / (np.sqrt(self.v[i]) + 1e-7)


def cos_similarity(x, y, eps=1e-8):
    nx = x / (np.sqrt(np.sum(x**2)) + eps)
    ny = y / (np.sqrt(np.sum(y**2)) + eps)
    return np.dot(nx, ny)


def most_similar(query, word_to_id, id_to_word, word_matrix, top=3):
    similarity = np.zeros(len(word_to_id))
    for i in range(len(word_to_id)):
        similarity[i] = cos_similarity(word_matrix[i], word_matrix[word_to_id[query]])
    best = []
    for i in (-1 * similarity).argsort():
        if id_to_word[int(i)] == query:
            continue
        best.append((id_to_word[int(i)], float(similarity[i])))
        if len(best) >= top:
            return best


def main(copies=3, hidden_size=8, epochs=8, batch_size=32, lr=0.02):
    random.seed(3)
    corpus, word_to_id, id_to_word = preprocess(SENTENCES * copies)
    contexts, target = create_contexts_target(corpus, window_size=2)
    model = CBOW(len(word_to_id), hidden_size, 2, corpus)
    optimizer = Adam(lr)

    losses = []
    for epoch in range(epochs):
        total, count = 0, 0
        for i in range(0, len(target), batch_size):
            total += model.forward(contexts[i:i + batch_size], target[i:i + batch_size])
            count += 1
            model.backward()
            optimizer.update(*remove_duplicate(model.params, model.grads))
        losses.append(total / count)
        print(f"epoch {epoch + 1}, loss {losses[-1]:.3f}")

    for query in ("king", "you"):
        print(query, [(word, round(s, 2)) for word, s in most_similar(query, word_to_id, id_to_word, model.word_vecs)])
    return {
        "contexts": contexts, "word_p": model.ns_loss.sampler.word_p, "losses": np.array(losses), "vectors": model.word_vecs,
        "similarity": cos_similarity(model.word_vecs[word_to_id["king"]], model.word_vecs[word_to_id["queen"]]),
    }


if __name__ == "__main__":
    main()
