"""The learner's convolutional net, in the order of lines of the article: layers appended one by one, then training.

    python examples/seeds/learner_cnn.py                          # MNIST, batch 128, 5 epochs
    python examples/seeds/learner_cnn.py --data digits            # the digits that come with weft, seconds
    python examples/seeds/learner_cnn.py --n-batch 8 --eta 0.001  # the article's batch

The article's own layer wrote its pooling gradient with ``grad_x[:, index] = grad``, which was most of its time and wrong;
here pooling and its gradient are ``wf.nn``'s. What differs from the article's settings (batch, widths of the first weights,
SAM around Adam, its rate) was chosen on 10,000 of the training images that were kept aside, not on the test images.
"""

from __future__ import annotations

import argparse
import time

import weft as wf
from learner import LayerManager


def build(data: wf.data.Split, mode: str = "cpu", eta: float = 0.003) -> LayerManager:
    x_train, x_test = data.x_train, data.x_test
    t_train, t_test = data.y_train, data.y_test

    C, I_h, I_w = x_train.shape[1:]
    M, F_h, F_w = 10, 3, 3
    opt_dic = {"rho": 0.1, "opt": "Adam", "opt_dic": {"eta": eta}}

    lm = LayerManager((x_train, x_test), (t_train, t_test), mode=mode)
    lm.append(name="c", I_shape=(C, I_h, I_w), F_shape=(M, F_h, F_w), pad=1, wb_width=0.3, opt="SAM", opt_dic=opt_dic)
    lm.append(name="p", I_shape=lm[-1].O_shape, pool=2)
    lm.append(name="m", n=100, wb_width=0.03, opt="SAM", opt_dic=opt_dic)
    lm.append(name="o", n=10, act="softmax", err_func="Cross", wb_width=0.1, opt="SAM", opt_dic=opt_dic)
    return lm


def main(argv: list[str] | None = None) -> LayerManager:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=("mnist", "digits"), default="mnist")
    parser.add_argument("--mode", default="cpu", help="where it runs: cpu, gpu (gpu:1 and so on), gpu-sim, or auto")
    parser.add_argument("--epoch", type=int, default=5)
    parser.add_argument("--n-batch", type=int, default=128)
    parser.add_argument("--eta", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)

    wf.random.seed(arguments.seed)
    lm = build(wf.data.load_mnist() if arguments.data == "mnist" else wf.data.load_digits(), arguments.mode, arguments.eta)
    print(lm)

    epoch = arguments.epoch
    threshold = 1e-8
    n_batch = arguments.n_batch
    begin = time.perf_counter()
    lm.training(epoch, threshold=threshold, n_batch=n_batch, show_train_error=True, seed=arguments.seed)
    print(f"seconds: {time.perf_counter() - begin:.1f}")

    print("training data")
    lm.predict(x=lm.x_train, t=lm.t_train)
    print("test data")
    lm.predict()
    return lm


if __name__ == "__main__":
    main()
