"""A site's policy in words: the file that `federation init` writes, and what each rule means."""

from collections.abc import Mapping

from fedjigsaw.records.policy import Policy


def default_text() -> str:
    """Return the file with all defaults and what they mean."""
    policy = Policy()
    lines = [
        "# What this site answers. Anything else is refused and written to the journal.",
        "# `fedjigsaw federation policy FOLDER` shows the rules. A change counts from the next",
        "# question on; one that allows more than the default needs a restart: --accept-policy.",
        "",
    ]
    for name, meaning in MEANINGS.items():
        if name != "at_most":
            lines += [f"# {line}" for line in meaning.split("\n")]
            lines += [f"{name} = {_toml(getattr(policy, name))}", ""]
    lines += [f"# {line}" for line in MEANINGS["at_most"].split("\n")]
    lines += ["[at_most]", *(f"{name} = {value}" for name, value in policy.at_most.items())]
    return "\n".join(lines) + "\n"


def describe(policy: Policy) -> list[tuple[str, str, str]]:
    """Return key, value and meaning of every rule."""
    return [
        (name, _toml(getattr(policy, name)), meaning.replace("\n", " "))
        for name, meaning in MEANINGS.items()
    ]


def _toml(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {number}" for name, number in value.items())
    return str(value)


MEANINGS = {
    "methods": "Methods that the coordinator may run here.",
    "rounds": (
        "Rounds of one run that are answered. Methods with several rounds need more than 1;\n"
        "each round counts as a question."
    ),
    "later_models": (
        'Models that later rounds may be about. "derived": the site computes the model again\n'
        'from the summaries of all sites. "any": whatever the server sends (deepfeca needs it).'
    ),
    "questions_per_day": (
        "Different questions that are answered within 24 hours. The same question again gets\n"
        "the same answer and does not count."
    ),
    "questions_in_all": "Different questions that are answered about one data set, ever.",
    "least_cluster_size": (
        "Smallest number of rows that a center may stand for. Rows move between the clusters\n"
        "of different answers only in groups of this size. From 2 on, numbers leave rounded to\n"
        "their sampling error; 1 turns all of this off."
    ),
    "counts": 'How sizes of clusters leave, if the method needs them: "exact", "rounded", "none".',
    "sums": 'Whether sums of squares leave, if the method needs them: "rounded" or "none".',
    "statistics": (
        "Whether means and spreads of columns leave, for a common scaler (run --scale):\n"
        '"rounded" or "none". They count as a question.'
    ),
    "scores": (
        "Models whose fit is measured (run --score): clusters of at least least_cluster_size\n"
        'rows, rounded; each counts as a question. "derived": as for later_models. "any", "none".'
    ),
    "privacy": (
        'Differential privacy. "required": the site starts with --epsilon only. "none": it may be\n'
        "started with or without; what it was started with holds for every answer."
    ),
    "largest_epsilon": 'Largest epsilon of one run, if privacy = "required".',
    "at_most": "Largest values of parameters that the coordinator may choose.",
}
