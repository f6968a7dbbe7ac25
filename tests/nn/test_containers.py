"""Sequential as a list, Residual, Lambda, Reshape, Embedding, Bilinear, inferred widths, initializers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from layer_reference import check

import weft as wf
from weft.errors import AxisError, DTypeError, ShapeError, TraceError
from weft.nn.size_arguments import has_unknown_widths

nn = wf.nn
rng = np.random.default_rng()


def test_sequential_is_a_list() -> None:
    net = nn.Sequential()
    net.append(nn.Linear(4, 4), name="first").append(nn.Tanh()).append(nn.Linear(4, 2))
    assert net.names == ["first", "tanh1", "linear1"] and len(net) == 3
    assert list(net.parameters()) == ["first.weight", "first.bias", "2.weight", "2.bias"]
    net.insert("linear1", nn.Linear(4, 4)).insert(-1, lambda x: x * 2)
    assert net.names == ["first", "tanh1", "linear1", "lambda1", "linear2"]
    assert net["first"] is net[0] and net[-1] is net["linear2"] and net.index(net[2]) == 2
    assert isinstance(net[1:3], nn.Sequential) and net[1:3][0] is net[1]
    taken = net.remove("lambda1")
    assert isinstance(taken, nn.Lambda) and net.names[-1] == "linear2" and len(net) == 4
    net["tanh1"] = nn.ReLU()
    assert net.names[1] == "relu1"
    del net[1]
    assert [type(layer) for layer in net] == [nn.Linear] * 3
    with pytest.raises(KeyError, match="no layer is called 'nowhere'"):
        net["nowhere"]
    with pytest.raises(IndexError, match="there are 3 layers"):
        net[3]
    with pytest.raises(ValueError, match="already"):
        net.append(nn.ReLU(), name="first")
    with pytest.raises(ValueError, match="is not one of its layers"):
        net.index(nn.ReLU())
    with pytest.raises(ValueError, match="a name must be"):
        net.append(nn.ReLU(), name="2")
    with pytest.raises(TypeError, match="not a layer"):
        net.append(3)  # type: ignore[arg-type]


def test_named_layers_are_attributes() -> None:
    net = nn.Sequential(("body", nn.Linear(3, 4)), nn.ReLU(), ("head", nn.Linear(4, 2)))
    assert net.head is net[2] and not hasattr(net, "tail") and not hasattr(net, "relu1")
    run = wf.jit(lambda x: net(x))
    assert run(wf.ones((1, 3))).shape == (1, 2)
    net.head = nn.Linear(4, 5)
    assert net.head is net[2] and len(net) == 3 and run(wf.ones((1, 3))).shape == (1, 5)
    assert [p.shape for p in net.parameters().values()] == [(4, 3), (4,), (5, 4), (5,)]
    again = pickle.loads(pickle.dumps(net))
    assert (again.head.weight.numpy() == net.head.weight.numpy()).all() and "head" not in vars(again)


def test_changes_are_seen_under_jit() -> None:
    net = nn.Sequential(nn.Identity())
    run = wf.jit(lambda x: net(x))
    assert run(wf.ones(2)).tolist() == [1, 1]
    net.append(nn.Lambda(lambda x: x + 1))
    assert run(wf.ones(2)).tolist() == [2, 2]
    net.insert(0, nn.Lambda(lambda x: x * 3))
    assert run(wf.ones(2)).tolist() == [4, 4]
    net.remove(2)
    assert run(wf.ones(2)).tolist() == [3, 3]


def test_residual_lambda_reshape() -> None:
    x = rng.normal(size=(3, 4))
    net = nn.Residual(nn.Lambda(wf.tanh), nn.Lambda(lambda x: x * 2))
    check(net, lambda x: x + 2 * np.tanh(x), x)
    wide = nn.Residual(nn.Linear(4, 6), shortcut=nn.Linear(4, 6))
    assert wide(wf.ones((3, 4))).shape == (3, 6) and len(wide.parameters()) == 4
    with pytest.raises(ShapeError, match="give a shortcut"):
        nn.Residual(nn.Linear(4, 6))(wf.ones((3, 4)))
    assert nn.Reshape((2, -1))(wf.array(x)).shape == (3, 2, 2)
    with pytest.raises(ShapeError, match="do not fit"):
        nn.Reshape(3)(wf.array(x))
    for start, end in ((2, -1), (1, 0)):
        with pytest.raises(AxisError, match="flatten: start_dim"):
            nn.flatten(wf.array(x), start, end)


def test_embedding() -> None:
    table, at = rng.normal(size=(7, 3)), np.array([[1, 2, 2], [0, 6, -1]])
    check(lambda w: nn.embedding(wf.array(at), w), lambda w: w[at], table)
    slope = wf.grad(lambda w: nn.embedding(wf.array(at), w, padding_idx=2).sum())(wf.array(table)).numpy()
    assert slope[:, 0].tolist() == [1, 1, 0, 0, 0, 0, 2]
    layer = nn.Embedding(7, 3, padding_idx=2)
    assert (layer.weight.numpy()[2] == 0).all() and (layer.weight.numpy()[1] != 0).all()
    np.testing.assert_array_equal(wf.jit(lambda i: layer(i))(wf.array(at)).numpy(), layer.weight.numpy()[at])
    with pytest.raises(IndexError, match="index 7"):
        layer(wf.array([0, 7]))
    with pytest.raises(DTypeError, match="integers"):
        layer(wf.ones(2))


def test_bilinear() -> None:
    a, b, w, bias = rng.normal(size=(5, 3)), rng.normal(size=(5, 4)), rng.normal(size=(2, 3, 4)), rng.normal(size=2)
    check(nn.bilinear, lambda a, b, w, bias: np.einsum("ni,oij,nj->no", a, w, b) + bias, a, b, w, bias)
    layer = nn.Bilinear(None, None, 2)
    assert layer(wf.ones((5, 3)), wf.ones((5, 4))).shape == (5, 2) and layer.weight.shape == (2, 3, 4)
    with pytest.raises(ShapeError, match="bilinear"):
        layer(wf.ones((5, 4)), wf.ones((5, 4)))


def test_widths_from_the_first_batch() -> None:
    net = nn.Sequential(nn.Conv2d(None, 3, 3), nn.BatchNorm2d(None), nn.ReLU(), nn.Flatten(), nn.Linear(None, 2))
    assert net.parameters() == {}
    with pytest.raises(TraceError, match="call the model once"):
        wf.jit(lambda x: net(x))(wf.ones((2, 1, 5, 5)))
    net(wf.ones((2, 1, 5, 5)))
    assert net[0].in_channels == 1 and net[-1].in_features == 27 and len(net.parameters()) == 6
    history = wf.train.fit(
        nn.Sequential(nn.Linear(None, 4), nn.ReLU(), nn.Linear(None, 2)), rng.normal(size=(12, 5)),
        rng.integers(0, 2, 12), epochs=1, batch_size=4, show=False,
    )
    assert np.isfinite(history.loss[0])
    lazy = nn.Sequential(nn.Linear(None, 4), nn.Tanh(), nn.Linear(None, 1))
    history = wf.train.fit(
        lazy, rng.normal(size=(12, 5)), rng.normal(size=(12, 1)).astype("float32"), loss=wf.losses.mse, epochs=1, show=False)
    assert np.isfinite(history.loss[0]) and lazy[0].in_features == 5


def test_widths_left_out_by_name_and_widths_of_numpy() -> None:
    image = wf.ones((2, 4, 5, 5))
    for layer, x in (
        (nn.Linear(out_features=3), image), (nn.Conv2d(out_channels=3, kernel_size=3), image), (nn.BatchNorm2d(), image),
        (nn.InstanceNorm2d(affine=True), image), (nn.GroupNorm(2), image), (nn.LSTM(hidden_size=3), image[0]),
        (nn.ConvTranspose2d(out_channels=3, kernel_size=3), image),
    ):
        assert not layer.parameters() and has_unknown_widths(layer)
        with pytest.raises(TraceError, match="is not known yet"):
            wf.jit(lambda x, layer=layer: layer(x))(x)
        layer(x)
        assert layer.parameters() and not has_unknown_widths(layer)
    with pytest.raises(ShapeError, match="Linear: out_features must be a positive int, not None"):
        nn.Linear(10)
    classes = np.array([3, 0, 2]).max() + 1
    assert nn.Linear(4, classes).weight.shape == (4, 4) and nn.Embedding(classes, 2).num_embeddings == 4
    assert nn.Conv2d(1, 2, np.int32(3), padding=(np.int64(1), 0)).kernel_size == (3, 3)
    for bad in (True, 2.0, "2", 0):
        with pytest.raises(ShapeError, match="positive int"):
            nn.Linear(3, bad)


def test_what_a_module_holds() -> None:
    """Arrays and modules in lists and dicts, what a subclass of Sequential adds, and each shared thing once."""

    class Many(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scales = [wf.ones(2), wf.ones(2)]
            self.parts = {"a": nn.Linear(2, 2)}
            self.again = self.parts["a"]

        def forward(self, x):
            return self.again(self.parts["a"](x) * self.scales[0] + self.scales[1])

    net = Many()
    names = ["parts.a.bias", "parts.a.weight", "scales.0", "scales.1"]
    assert sorted(net.parameters()) == names
    before = {n: a.numpy().copy() for n, a in net.parameters().items()}
    wf.optim.SGD(0.1).update(net, wf.grad(lambda net: net(wf.ones((3, 2))).sum())(net))
    assert all((a.numpy() != before[n]).any() for n, a in net.parameters().items())

    class Headed(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(nn.Linear(2, 2))
            self.head = nn.Linear(2, 1)

        def forward(self, x):
            return self.head(super().forward(x))

    assert list(Headed().parameters()) == ["0.weight", "0.bias", "head.weight", "head.bias"]


def test_another_dtype_for_all_parameters() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(18, 2))
    x = wf.array(rng.normal(size=(4, 1, 5, 5)).astype("float32"))
    run = wf.jit(lambda x: net(x))
    weight, want = net[0].weight, run(x).numpy()
    assert net.astype("float16") is net and net[0].weight is weight
    assert {a.dtype.name for a in net.parameters().values()} == {"float16"}
    assert net[1].running_var.dtype == np.float32, "statistics are kept in float32"
    half = run(x.astype("float16"))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half.numpy(), want, atol=0.02)
    assert run(x).dtype == np.float32 and net.astype("float64")[1].running_var.dtype == np.float64
    with pytest.raises(DTypeError, match="must be a float dtype"):
        net.astype("int32")


def test_initializers() -> None:
    wf.random.seed(4)
    shape, init = (40, 50, 2, 2), nn.init
    fan_in, fan_out = 200, 160
    expected = {
        "xavier_uniform": (2 / (fan_in + fan_out)) ** 0.5, "xavier_normal": (2 / (fan_in + fan_out)) ** 0.5,
        "kaiming_uniform": (2 / fan_in) ** 0.5, "kaiming_normal": (2 / fan_in) ** 0.5, "uniform": 12**-0.5, "normal": 1.0,
        "lecun_uniform": fan_in**-0.5, "lecun_normal": fan_in**-0.5,
    }
    for name, deviation in expected.items():
        values = getattr(init, name)(shape).numpy()
        assert values.shape == shape and values.dtype == np.float32
        assert abs(values.std() / deviation - 1) < 0.05, name
    outward = init.kaiming_normal(shape, mode="fan_out", nonlinearity="tanh").numpy()
    assert abs(outward.std() / (5 / 3 / fan_out**0.5) - 1) < 0.05
    cut = init.truncated_normal(shape, 1.0, 2.0, -1.0, 4.0).numpy()
    from scipy import stats

    reference = stats.truncnorm(-1.0, 1.5, 1.0, 2.0)
    assert cut.min() >= -1 and cut.max() <= 4 and stats.kstest(cut.ravel(), reference.cdf).statistic < 0.02
    for size in ((3, 8), (8, 3)):
        q = init.orthogonal(size, gain=2.0).numpy().astype("float64")
        np.testing.assert_allclose(q @ q.T if size[0] < size[1] else q.T @ q, 4 * np.eye(3), atol=1e-5)
    layer = nn.Linear(4, 3)
    cell = layer.weight
    layer.weight = init.constant(layer.weight, 0.25)
    assert layer.weight is cell and (cell.numpy() == 0.25).all()
    assert (init.zeros(3).numpy() == 0).all() and (init.ones((2, 2)).numpy() == 1).all()
    assert init.normal(wf.ones((2, 2), dtype="float16")).dtype == np.float16
    fine = init.uniform(wf.ones(50, dtype="float64"), -1.0, 1.0).numpy()
    assert (fine != fine.astype("float32")).any(), "float64 has float64's digits"
    assert init.ones(np.int64(3)).shape == (3,)
    with pytest.raises(ShapeError, match="two dimensions"):
        init.xavier_uniform((3,))
