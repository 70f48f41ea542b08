"""Every way in which noisy numbers leave a site, from its file to the bytes that leave.

The noise is replaced by a witness. It sees the exact tables, so that it can tell how far apart
those of two files are that differ in one row; and it can give the noisy tables of one file as those
of another, from which the same bytes must follow.
"""

import numpy as np
import pytest

from fedjigsaw import Model, Privacy, sites
from fedjigsaw.columns.encoding import provisional
from fedjigsaw.columns.fitting import Moments, fit
from fedjigsaw.columns.scaling import Scaler
from fedjigsaw.columns.schema import Column, Schema
from fedjigsaw.columns.shown import shown_bounds
from fedjigsaw.columns.sketches import Sketch
from fedjigsaw.io import formats
from fedjigsaw.io.formats import ModelFile
from fedjigsaw.io.tables import open_table
from fedjigsaw.privacy.dp import Noise, multiplier_for
from reproduction.experiments.audit import plain_bound

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
openpyxl = pytest.importorskip("openpyxl")

SCHEMA = Schema(
    (
        Column("age", range=(0, 120), outside="clip"),
        Column("dose", range=(0, 1000), scale="log", missing="median", outside="missing"),
        Column("seen", "date", range=(11000.0, 22000.0), scale="robust", outside="clip"),
        Column("sex", "category", categories=("f", "m")),
        Column("stage", "ordered", categories=("low", "mid", "high"), outside="missing"),
        Column("smoker", "boolean"),
    )
)
NAMES = [column.name for column in SCHEMA.columns]
EPSILON = 2.0
ALLOWED = 1 / multiplier_for(EPSILON, 1e-6)
ROWS = {
    "on the upper bounds": ["120", "1000", "2035-01-01", "f", "high", "yes"],
    "on the lower bounds": ["0", "0", "1999-01-01", "m", "low", "no"],
    "outside of them": ["99999", "-3", "2015-06-11", "x", "huge", "no"],
    "with one value": ["", "", "", "f", "", ""],
    "without a value": ["", "", "", "", "", ""],
    "as others": ["40", "5", "2015-06-11", "f", "mid", "yes"],
}


def usual(n, seed):
    """Rows as a site has them, some with missing values."""
    rng = np.random.default_rng(seed)
    rows = [
        [
            f"{rng.uniform(0, 120):.1f}",
            f"{rng.exponential(50):.2f}",
            f"{rng.integers(2001, 2029)}-0{rng.integers(1, 10)}-11",
            str(rng.choice(["f", "m"])),
            str(rng.choice(["low", "mid", "high"])),
            str(rng.choice(["yes", "no"])),
        ]
        for _ in range(n)
    ]
    return [[cell if rng.random() < 0.9 else "" for cell in row] for row in rows]


def public_scaler():
    """A preparation that depends on no rows."""
    names = provisional(SCHEMA).features
    low, high = provisional(SCHEMA).bounds()
    mean, variance = (low + high) / 2, (high - low) ** 2 / 12
    moments = Moments(
        100, *(dict(zip(names, values.tolist(), strict=True)) for values in (mean, variance))
    )
    quantiles = {
        "dose": Sketch(np.linspace(0, np.log1p(1000), 9), np.full(9, 11)),
        "seen": Sketch(np.linspace(11000, 22000, 9), np.full(9, 11)),
    }
    encoding, center, width = fit(SCHEMA, moments, quantiles)
    return Scaler(encoding.features, center, width, encoding)


SCALER = public_scaler()


def promise(bounds=((0.0, 0.0), (120.0, 1000.0)), **more):
    cells = None if "unit" in more else "own"
    return Privacy(EPSILON, bounds=bounds, **{"cells": cells, **more})


def model(scaler):
    columns = ("age", "dose") if scaler is None else scaler.columns
    centers = np.random.default_rng(1).normal(size=(3, len(columns)))
    if scaler is None:
        centers = np.array([[20.0, 10.0], [60.0, 100.0], [100.0, 500.0]])
    return ModelFile(Model(centers, "jigsaw", {}, columns), scaler, ("a",), 0)


def summary(data, k=2, scaler=None, **more):
    plain = {"columns": ("age", "dose"), "drop_missing": True}
    bounds = {} if scaler is None else {"bounds": SCALER.encoding.bounds()}
    options = plain if scaler is None else {"scaler": scaler}
    return sites.summarize(data, k, client="a", privacy=promise(**bounds, **more), **options)


def profile(data, scaler=None):
    bounds = {} if scaler is None else {"bounds": shown_bounds(SCHEMA)}
    file, privacy = model(scaler), promise(**bounds)
    options = {"client": "a", "profile": True, "drop_missing": scaler is None}
    return sites.score(data, file, privacy=privacy, **options)


ROUTES = {
    "summary": summary,
    "summary, any number of clusters": lambda data: summary(data, "auto"),
    "summary, shared cells": lambda data: summary(data, cells="shared"),
    "summary, whole site": lambda data: summary(data, unit="site"),
    "summary by a schema": lambda data: summary(data, scaler=SCALER),
    "statistics": lambda data: sites.measure(
        data, client="a", columns=("age", "dose"), drop_missing=True, privacy=promise()
    ),
    "statistics by a schema": lambda data: sites.measure(
        data, client="a", schema=SCHEMA, privacy=promise()
    ),
    "profile": profile,
    "profile by a schema": lambda data: profile(data, SCALER),
}


def write(path, rows):
    """Write rows as text or as a sheet."""
    if path.suffix == ".csv":
        path.write_text("\n".join([",".join(row) for row in [NAMES, *rows]]) + "\n")
        return path
    book = openpyxl.Workbook()
    for row in [NAMES, *rows]:
        book.active.append(row)
    book.save(path)
    return path


class Witness:
    """Takes the place of noise: keeps each exact table, and returns one that it is given."""

    def __init__(self, monkeypatch, given=()):
        self.tables, self.scales, self.noisy, self.given = [], [], [], list(given)
        rng = np.random.default_rng(0)

        def add(noise, values, scale):
            self.tables.append(values)
            self.scales.append(scale)
            drawn = values + np.rint(rng.normal(0, scale, values.shape)).astype(np.int64)
            self.noisy.append(self.given.pop(0) if self.given else drawn)
            return self.noisy[-1]

        monkeypatch.setattr(Noise, "add", add)


@pytest.mark.parametrize("route", ROUTES)
def test_nothing_leaves_but_what_follows_from_noisy_tables(route, tmp_path, monkeypatch):
    release = ROUTES[route]
    witness = Witness(monkeypatch)
    first = formats.encode(release(write(tmp_path / "a.csv", usual(150, 0))))
    again = Witness(monkeypatch, witness.noisy)
    others = [*usual(37, 1), *ROWS.values(), *[[""] * 6] * 5]
    assert formats.encode(release(write(tmp_path / "a.csv", others))) == first
    assert len(again.tables) == len(witness.tables)
    assert not any((a == b).all() for a, b in zip(again.tables, witness.tables, strict=True))


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
@pytest.mark.parametrize("route", [name for name in ROUTES if "site" not in name])
def test_files_that_differ_in_one_row_are_within_the_promise(route, ending, tmp_path, monkeypatch):
    release = ROUTES[route]
    # spreadsheets leave empty rows behind: at the end they are none, and a row below them is one
    rows = [*usual(30, 2), *[[""] * 6] * 25]
    path = tmp_path / f"a{ending}"
    witness = Witness(monkeypatch)
    release(write(path, rows))
    for row in ROWS.values():
        for place in (0, 20, len(rows)):
            other = Witness(monkeypatch, witness.noisy)
            release(write(path, [*rows[:place], row, *rows[place:]]))
            pairs = zip(witness.tables, other.tables, witness.scales, strict=True)
            away = [np.linalg.norm((a - b).ravel()) / scale for a, b, scale in pairs]
            assert np.linalg.norm(away) <= ALLOWED * (1 + 1e-9)


# Quantiles have 256 noisy numbers each, which takes OpenDP long.
AUDITED = {
    **{name: ROUTES[name] for name in ("summary, shared cells", "statistics", "profile")},
    "statistics by a schema": lambda data: sites.measure(
        data, client="a", schema=SCHEMA.without(["dose", "seen"]), privacy=promise()
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("route", AUDITED)
def test_an_auditor_finds_the_promise_kept_and_too_little_noise_out(route, tmp_path, monkeypatch):
    others = [["60", "500", "2015-06-11", "m", "mid", "no"]] * 40
    files = {"a.csv": others, "b.csv": [*others, ROWS["on the upper bounds"]]}
    tables = [open_table(write(tmp_path / name, rows)) for name, rows in files.items()]
    real, n = Noise.add, 100

    def exact(data):
        witness = Witness(monkeypatch)
        AUDITED[route](data)
        return witness.tables[0]

    without, with_ = map(exact, tables)
    way = (with_ - without) / np.linalg.norm(with_ - without)

    def bound(strength):
        """Return a lower bound on epsilon, from guesses by the likelihood ratio."""
        seen = []

        def add(noise, values, scale):
            seen.append(real(noise, values, strength * scale))
            return seen[-1]

        monkeypatch.setattr(Noise, "add", add)
        for data in tables:
            for _ in range(n):
                AUDITED[route](data)
        middle = (without + with_) / 2
        above = np.array([((noisy - middle) * way).sum() > 0 for noisy in seen]).reshape(2, n)
        return plain_bound(*above.sum(axis=1, keepdims=True), n, 1e-6)

    assert bound(1.0) < EPSILON
    assert bound(0.05) > EPSILON
