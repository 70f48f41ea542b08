"""Rows of a run as text."""

from collections.abc import Mapping
from typing import Any


def progress_line(row: Mapping[str, Any], n_rounds: int, *, first: bool = False) -> str:
    """Describe a round of training in one line, with the time left.

    Parameters
    ----------
    first : bool, default False
        Whether the run began with this round, which then took longer than others: code was compiled
        and statistics were measured. So it does not tell the time left.
    """
    left = (n_rounds - row["rounds"]) * row["round_seconds"]
    words = [
        f"round {row['rounds']}/{n_rounds}",
        f"loss {row['loss']:.3f}",
        f"{row['clusters_used']}/{row['clusters']} clusters",
        f"largest {row['largest_share']:.0%}",
        f"spread {row['spread']:.2f}",
    ]
    words += [f"on others {row['validation_loss']:.3f}"] if "validation_loss" in row else []
    words += [f"nmi {row['nmi']:.3f}"] if "nmi" in row else []
    words += [f"linear {row['linear_accuracy']:.2%}"] if "linear_accuracy" in row else []
    share = row["cluster_seconds"] / row["round_seconds"]
    words += [
        f"{row['round_seconds']:.1f} s ({share:.0%} clustering)",
        f"{row['views_per_second']:,.0f} views/s",
    ]
    words += [] if first else [f"{left:.0f} s left" if left < 100 else f"{left / 60:.0f} min left"]
    return ", ".join(words)


def accuracies(row: Mapping[str, Any], *, has_test: bool) -> str:
    """Describe an evaluation in one line.

    Parameters
    ----------
    has_test : bool
        Whether there were test images, or else every fifth image was held out.

    Examples
    --------
    >>> accuracies({"linear_accuracy": 0.5, "knn_accuracy": 0.25}, has_test=False)
    'Linear probe 50.00%, nearest neighbors 25.00% of every fifth image, held out for the test.'
    """
    images = "the test images" if has_test else "every fifth image, held out for the test"
    text = (
        f"Linear probe {row['linear_accuracy']:.2%}, "
        f"nearest neighbors {row['knn_accuracy']:.2%} of {images}."
    )
    if row.get("probe_at_edge"):
        text += f" Of the probe's penalties, {row['probe_decay']:g} is the last that was tried."
    if not row.get("probe_converged", True):
        text += " The probe stopped at its limit of steps, before it converged."
    return text
