"""Recipes: named settings of DeepFeCA, so that a user needs no long list of them.

``fedjigsaw deep train --recipe best``, or ``DeepFeCA.from_settings(RECIPES["best"])``.
"""

from collections.abc import Mapping
from typing import Any

RECIPES: Mapping[str, Mapping[str, Any]] = {
    # The paper's, as far as it tells them; all else has its default. k is for ten classes.
    "paper": {
        "clusterer": "feca",
        "n_clusters": 10,
        "network": "resnet18",
        "n_rounds": 150,
        "local_epochs": 5,
        "batch_size": 128,
    },
    # Our best run on the most skewed split of CIFAR-10. A test compares it with its row,
    # deep-swapped-dirichlet0.1-weight-decay in results/deep.jsonl.
    "best": {
        "clusterer": "jigsaw",
        "n_clusters": [300, 300, 300],
        "network": "resnet18",
        "n_rounds": 60,
        "local_epochs": 5,
        "batch_size": 128,
        "learning_rate": 0.1,
        "final_learning_rate": 0.02,
        "warmup_rounds": 4,
        "weight_decay": 0.0005,
        "server_momentum": 0.5,
        "batch_norm": "recalibrate",
        "targets": "swapped",
        "stored_share": 0.25,
        "validation_share": 0.02,
    },
}
