"""Hypothesis strategies: sets of centers, with many ties on purpose."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

whole = st.integers(-4, 4).map(float)


@st.composite
def centers_and_radii(draw, max_centers=25):
    """Centers on a small integer grid, so that distances and radii tie often."""
    n = draw(st.integers(1, max_centers))
    d = draw(st.integers(1, 3))
    centers = draw(hnp.arrays(np.float64, (n, d), elements=whole))
    radii = draw(hnp.arrays(np.float64, n, elements=st.sampled_from([0.0, 0.5, 1.0, 2.0, 5.0])))
    return centers, radii


@st.composite
def clusters(draw):
    """A few clusters of points: a list of arrays of shape (n_i, 2)."""
    finite = st.floats(-1e3, 1e3, allow_nan=False, width=32)
    sizes = draw(st.lists(st.integers(1, 6), min_size=2, max_size=2))
    return [draw(hnp.arrays(np.float64, (n, 2), elements=finite)) for n in sizes]
