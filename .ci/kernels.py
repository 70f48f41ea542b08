"""Compile what most tests use, so that tests side by side need not each do it.

python .ci/kernels.py

Numba keeps the machine code, and compiles only what has changed.
"""

import numpy as np

from fedjigsaw import Jigsaw
from fedjigsaw.kernels.warm import compile_kernels

if __name__ == "__main__":
    compile_kernels()
    X = np.random.default_rng(0).normal(size=(3000, 2))
    Jigsaw("auto", random_state=0).fit(X, clients=np.arange(3000) % 5)  # and mixtures
