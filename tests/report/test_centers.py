"""Centers of a prepared table are read back as what people would compute from the rows."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from fedjigsaw import FederatedPreparation
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.columns.schema import Schema
from fedjigsaw.report.centers import read_centers

SCHEMA = Schema.from_dict(
    {
        "format": 1,
        "columns": {
            "age": {"unit": "years", "range": [0, 120], "weight": 2},
            "dose": {"unit": "mg", "scale": "log"},
            "lab": {"scale": "robust", "missing": "median"},
            "sex": {"kind": "category", "categories": ["female", "male", "diverse"]},
            "smoker": {"kind": "boolean"},
            "stage": {"kind": "ordered", "categories": ["low", "mid", "high"]},
            "seen": {"kind": "date"},
            "hair": {"kind": "category", "categories": ["dark", "fair"], "weight": 0},
            "note": {"kind": "ignore"},
        },
    }
)


def make(n=500, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(50, 9, n)),
            "dose": np.where(rng.random(n) < 0.3, np.nan, rng.lognormal(1, 1, n)),
            "lab": np.where(rng.random(n) < 0.2, np.nan, rng.gamma(2, 3, n)),
            "sex": rng.choice(["female", "male", "diverse", None], n, p=[0.5, 0.3, 0.001, 0.199]),
            "smoker": rng.choice([True, False, None], n, p=[0.2, 0.5, 0.3]),
            "stage": rng.choice(["low", "mid", "high"], n),
            "seen": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "hair": "dark",
            "note": "-",
        }
    )
    return frame, rng.integers(0, 3, n)


@pytest.fixture(scope="module")
def prepared():
    frame, groups = make()
    preparation = FederatedPreparation(SCHEMA)
    rows = preparation.fit_transform(frame, clients=np.arange(len(frame)) % 2)
    centers = np.array([rows[groups == g].mean(axis=0) for g in range(3)])
    return frame, groups, preparation.scaler_, centers


def test_means_and_shares_are_those_of_the_rows_that_have_a_value(prepared):
    frame, groups, scaler, centers = prepared
    for g, center in enumerate(read_centers(centers, scaler.columns, scaler)):
        rows = frame[groups == g]
        expected = {
            "age": rows["age"].mean(),
            "dose": np.expm1(np.log1p(rows["dose"]).mean()),
            "lab": rows["lab"].mean(),
            "smoker": rows["smoker"].dropna().astype(float).mean(),
            "stage": rows["stage"].map({"low": 0, "mid": 1, "high": 2}).mean(),
            "seen": (rows["seen"] - pd.Timestamp("1970-01-01")).dt.days.mean(),
        }
        assert {n: r.value for n, r in center.items() if n != "sex"} == pytest.approx(expected)
        for name in ("age", "dose", "lab", "smoker"):
            assert center[name].missing == pytest.approx(rows[name].isna().mean())
        shares = center["sex"].shares
        assert shares["female"] == pytest.approx((rows["sex"] == "female").mean())
        assert center["sex"].missing == pytest.approx(rows["sex"].isna().mean())
        assert list(center) == ["age", "dose", "lab", "sex", "smoker", "stage", "seen"]


def test_they_are_read_in_words(prepared):
    frame, groups, scaler, centers = prepared
    rows, center = frame[groups == 0], read_centers(centers, scaler.columns, scaler)[0]
    missing = f"{100 * rows['age'].isna().mean():.0f} % missing"
    assert center["age"].text == f"{rows['age'].mean():.1f} years ({missing})"
    assert center["seen"].text == str(rows["seen"].mean().round("D").date())
    assert center["stage"].text == "around mid"
    assert center["smoker"].text.endswith("missing)")
    yes = rows["smoker"].dropna().astype(float).mean()
    assert center["smoker"].text.startswith(f"{100 * yes:.0f} % yes (")
    assert center["dose"].text.split()[1] == "mg"
    female = f"{100 * (rows['sex'] == 'female').mean():.0f} % female"
    assert center["sex"].text.startswith(female)


def test_what_noise_did_stays_within_what_can_be(prepared):
    _, _, scaler, centers = prepared
    for sign in (-1, 1):
        (center,) = read_centers(centers[:1] + sign * 1e3, scaler.columns, scaler)
        assert center["smoker"].text == "missing" if sign > 0 else "0 % yes"
        assert math.isnan(center["age"].value) if sign > 0 else center["age"].value == 0
        assert min(center["sex"].shares.values()) >= 0
        total = sum(center["sex"].shares.values()) + center["sex"].missing
        assert total == pytest.approx(max(0, sign))
        assert center["stage"].value == max(0.0, sign) * 2
        json.dumps(center["age"].to_dict(), allow_nan=False)
    far = centers[:1].copy()
    far[0, scaler.columns.index("seen")] = 1e12
    assert read_centers(far, scaler.columns, scaler)[0]["seen"].text == "unknown"


def test_centers_without_a_schema_are_numbers():
    scaler = Scaler(("x", "y"), np.array([1.0, 2.0]), np.array([2.0, 4.0]))
    (center,) = read_centers(np.array([[1.0, 0.5]]), ("x", "y"), scaler)
    assert {n: (r.value, r.text) for n, r in center.items()} == {"x": (3.0, "3"), "y": (4.0, "4")}
