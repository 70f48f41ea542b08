"""Tests of what computes on a GPU: here on one thread of a CPU, unless there is a GPU."""

import pytest

pytest.importorskip("torch")
