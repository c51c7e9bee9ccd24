"""Bounds of a step: they hold for whatever AdamW does, and never keep back a step that people take."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from muster.sessions.engines.adam import AdamW
from muster.sessions.engines.reach import Reach
from muster.sessions.seam import Adam

_LARGEST = torch.finfo(torch.float32).max
_PARAMS = st.builds(
    Adam,
    learning_rate=st.floats(0, 1e38),
    beta1=st.floats(0, 1, exclude_max=True),
    beta2=st.floats(0, 1, exclude_max=True),
    eps=st.floats(0, 1),
    weight_decay=st.floats(0, 1e30),
    grad_clip_norm=st.floats(0, 1e3),
)


@given(st.lists(st.tuples(_PARAMS, st.floats(0, 1e18), st.integers(0, 2**32)), min_size=1, max_size=4))
def test_what_stays_within_its_bounds_is_all_numbers(steps):
    weight = torch.ones(5, requires_grad=True)
    mine, reach = AdamW({"w": weight}), Reach(1.0, 0.0)
    for params, size, seed in steps:
        drawn = np.random.default_rng(seed).normal(size=5) * size
        gradient = torch.from_numpy(drawn.astype(np.float32))
        norm = float(gradient.norm())
        reach = reach.after(norm, params)
        if not reach.fits(_LARGEST):
            return
        mine._take([gradient], torch.tensor(norm), params)
        assert weight.abs().max() <= reach.weight * 1.001
        assert mine.state()["w.exp_avg"].abs().max() <= reach.moment * 1.001
        assert mine.state()["w.exp_avg_sq"].isfinite().all()


def test_gradients_whose_squares_are_nought_count_too():
    params = Adam(learning_rate=1.0, beta1=0.9, beta2=0.9, eps=1e-30)
    weight, gradient = torch.ones(8, requires_grad=True), torch.full((8,), 1e-23)
    mine, norm = AdamW({"w": weight}), gradient.norm()
    assert norm == 0
    mine._take([gradient], norm, params)
    assert 1e3 < weight.abs().max() <= Reach(1.0, 0.0).after(float(norm), params).weight


def test_a_hundred_thousand_steps_with_the_numbers_of_the_client_stay_within_them():
    reach = Reach(100.0, 0.0)
    for _ in range(100_000):
        reach = reach.after(1e3, Adam(learning_rate=1.0, weight_decay=0.1))
    assert reach.fits(_LARGEST)
