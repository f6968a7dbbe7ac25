"""summary: rows, totals, and that it changes nothing."""

from __future__ import annotations

import pytest

import weft as wf
from weft.errors import ShapeError

nn = wf.nn


def test_a_convolutional_net(capsys: pytest.CaptureFixture) -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                        nn.Dropout(0.5), nn.Linear(128, 10))
    before = {k: v.numpy().copy() for k, v in net.arrays().items()}
    found = net.summary((4, 3, 8, 8))
    assert "Conv2d" in capsys.readouterr().out
    assert [r.type for r in found.rows] == ["Conv2d", "BatchNorm2d", "ReLU", "MaxPool2d", "Flatten", "Dropout", "Linear"]
    assert [r.name for r in found.rows] == list("0123456")
    assert [r.output_shape for r in found.rows][:4] == [(4, 8, 8, 8)] * 3 + [(4, 8, 4, 4)]
    assert [r.parameters for r in found.rows] == [224, 16, 0, 0, 0, 0, 1290]
    assert found.total.parameters == sum(a.size for a in net.parameters().values()) == 1530
    linear, work = found.rows[-1], 2 * 4 * 128 * 10
    assert work <= linear.flops <= work + 2 * 40
    assert linear.bytes >= 4 * (4 * 128 + 1290 + 40) and found.total.output_shape == (4, 10)
    assert found.rows[4].flops == 0
    assert net.training and all((net.arrays()[k].numpy() == v).all() for k, v in before.items())


def test_widths_left_out_are_found() -> None:
    net = nn.Sequential(nn.BatchNorm1d(None), nn.Linear(None, 5), nn.Residual(nn.Linear(None, 5)))
    found = net.summary(wf.ones((2, 6)))
    assert found.total.parameters == 12 + 35 + 30 and net[1].in_features == 6
    assert net.training and not net[0].running_mean.numpy().any()
    assert [(r.name, r.flops) for r in found.rows if "own" in r.name] == [("2 (own)", 10)]


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm, self.out, self.idle = nn.Embedding(9, 4), nn.LSTM(4, 6), nn.Linear(6, 9), nn.Linear(2, 2)
        self.gain = wf.ones(6)

    def forward(self, x):
        return self.out(self.out.weight.sum() + self.lstm(self.embed(x))[0] * self.gain)


def test_own_parameters_loops_and_layers_never_called() -> None:
    short, long = Language().summary((3, 5), dtype="int64"), Language().summary((3, 10), dtype="int64")
    rows = {r.name: r for r in short.rows}
    assert rows["Language (own)"].parameters == 6 and rows["Language (own)"].flops >= 3 * 5 * 6
    assert rows["idle"].output_shape is None and rows["idle"].parameters == 6
    assert rows["lstm"].output_shape[0] == (3, 5, 6)
    assert sum(r.parameters for r in short.rows) == short.total.parameters
    assert long.rows[2].flops > 1.8 * rows["lstm"].flops > 0


def test_a_layer_called_twice_is_counted_once() -> None:
    layer = nn.Linear(3, 3)
    found = nn.Sequential(layer, layer).summary((2, 3))
    assert [r.parameters for r in found.rows] == [12, 0] and found.total.parameters == 12


def test_shown_in_a_notebook_and_errors() -> None:
    found = nn.Sequential(("<b>", nn.Linear(3, 2))).summary((2, 3))
    text = found._repr_html_()
    assert text.startswith("<table>") and "&lt;b&gt;" in text and text.count("<tr>") == 3
    for bad in ((), ((-1, 3),), ((2, 4),)):
        with pytest.raises(ShapeError):
            nn.Linear(3, 2).summary(*bad)
    layer = nn.Linear(3, 2)
    assert layer(wf.ones((1, 3))).shape == (1, 2), "an error leaves no watch behind"
