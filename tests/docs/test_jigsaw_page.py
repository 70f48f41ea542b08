"""The constants on docs/jigsaw.md are those of the code, and what it says of a picture is so."""

import re

import numpy as np
import pytest

from fedjigsaw.choice import (
    cells,
    confidence,
    decision,
    findings,
    grain,
    local_cells,
    mixtures,
    search,
    shaping,
    sizes,
    valleys,
)
from fedjigsaw.privacy import guard
from fedjigsaw.privacy.policy import Policy
from pages_as_code import page

TABLE = page("docs/jigsaw.md").partition("### Every constant")[2].partition("\n## ")[0]
SMALL = [confidence.separation(np.array([z]))[0] for z in (3.0, 5.0)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rows per cell", f"{sizes.ROWS_PER_CELL}"),
        ("cells per client", f"at most {sizes.MAX_CELLS}"),
        ("cells of two rows", f"up to {sizes.PAIRS}"),
        ("rows to find cells from", f"{local_cells.SAMPLE} per cell"),
        ("values of a column with steps", f"at most {grain.MAX_VALUES}"),
        (
            "steps that are common values",
            f"more than {100 * grain.DENSE:.0f} %, and {grain.MANY_STEPS} or more",
        ),
        ("rows that share a value", f"{grain.MIN_ROWS}, or the guard's size"),
        ("variance of a column of two values h apart", f"h² / {grain.TWO_VALUES}"),
        ("variance of other steps h", f"h² / {grain.STEPS}"),
        ("cells merged under a guard", f"at most {guard.SIMILAR:g} typical scatters"),
        ("rows left out that count", f"more than {guard.FAR:g} scatters"),
        ("cells at the server", f"{cells.MAX_CELLS}"),
        ("axes along which clusters may be long", f"first {cells.MAX_AXES} principal axes"),
        ("rows in advance per component", f"{mixtures.PRIOR_ROWS:g}, of average scatter"),
        ("rows of a component", f"at least {mixtures.MIN_ROWS:g}"),
        ("background at the start", f"{100 * mixtures.START_BACKGROUND:g} %"),
        ("end of EM", f"less than {mixtures.TOL:g} of"),
        ("centers that are agglomerated first", f"{search.START_CENTERS}, doubled"),
        (
            "components from which EM starts",
            f"{search.MORE} or {100 * search.MORE_SHARE:g} % more",
        ),
        ("the BIC has turned", f"by {search.FAR:g} (d + 2) log n"),
        ("components with which a merger is tried", f"the {search.NEIGHBORS} nearest"),
        ("k-means partitions", f"up to {decision.MORE_SHARE:g} times"),
        ("k-means partitions", f"plus {decision.MORE}"),
        ("work of a search", f"{search.WORK / 1e10:g}·10¹⁰"),
        ("believed valley", f"{valleys.BELIEVED:g} standard errors"),
        ("tube between two centers", f"at most {valleys.MAX_TUBE:g} deviations"),
        ("tube between two centers", f"at most {valleys.MAX_STEP:g} deviations"),
        ("valley of two clusters alone", f"at most {valleys.CLEAR:g} of the lower hill"),
        ('pieces that `shape="any"` joins', f"below {shaping.JOIN:g} standard errors"),
        ("neighbors", f"the {valleys.NEIGHBORS} nearest"),
        ("few cells", f"fewer than {decision.FEW_CELLS} per client"),
        ("confidence: agreement", f"{confidence.AGREEMENT[decision.AGREE]:g} if all agree"),
        ("confidence: agreement", f"{confidence.AGREEMENT[decision.SEPARATE]:g} if BIC"),
        (
            "confidence: agreement",
            f"{confidence.VOTES[0]:g} to {confidence.VOTES[-1]:g} by the number",
        ),
        ("confidence: separation", f"{SMALL[0]:.2f} at 3, {SMALL[1]:.2f} at 5"),
        ("confidence: one cluster", f"/ {confidence.RESOLVED:g})²"),
        ("confidence: one cluster", f"times {confidence.HIDDEN:g} if a few columns are flat"),
        ("confidence: one cluster", f"kurtosis below {confidence.FLAT:g}"),
        ("confidence: one cluster", f"and {confidence.FLATTER:g} below the median"),
        (
            "confidence: columns of few values",
            f"1 - {confidence.DOUBT_OF_STEPS:g} · their share",
        ),
        ("confidence: columns of few values", f"hide {100 * confidence.COARSE:g} %"),
        ("confidence: blur", f"times {confidence.BLURRED:g} if"),
        ("confidence: blur", f"({3 * mixtures.MIN_ROWS:g}, or "),
        ("confidence: blur", f"or {100 * confidence.SMALL_CLUSTER:g} % of an average one"),
        ("confidence: blur", f"(no {valleys.CLEARLY:g} times deeper)"),
        ("words", f"from {findings.SURE:g} on; doubt below {findings.DOUBTFUL:g}"),
        ("words", f"elongated from {decision.LONG:g}:1"),
        ("words", f"background from {100 * findings.BACKGROUND:g} % of the rows"),
    ],
)
def test_constants(name, words):
    (row,) = re.findall(rf"^\| {re.escape(name)} \|.*$", TABLE, flags=re.M)
    assert words in row


def test_what_is_sent():
    text = page("docs/jigsaw.md")
    assert f"{sizes.MAX_CELLS * 8 * 22 / 1000:.0f} kB for {sizes.MAX_CELLS} cells of 20" in text
    assert f"with fewer than {sizes.PAIRS * sizes.ROWS_PER_CELL} rows sends up to" in text
    assert [sizes.n_cells(n) for n in (99, 100, 5000)] == [20, 20, 200]
    assert Policy().at_most["n_local_clusters"] == sizes.MAX_CELLS
