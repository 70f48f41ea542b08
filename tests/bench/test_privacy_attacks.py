"""Attacks succeed where nothing protects, and fail where noise does."""

import re

import numpy as np
import pytest

from fedjigsaw.bench import privacy_attack_tables as tables
from fedjigsaw.bench import privacy_attacks as attacks
from fedjigsaw.bench.privacy_attacks import PROTECTIONS, AttackCell, attack_plans
from fedjigsaw.bench.privacy_audit import AuditCell
from fedjigsaw.bench.studies import studies
from fedjigsaw.messages import Summary


@pytest.fixture
def few(monkeypatch):
    for name, value in {"PATIENTS": 3, "RUNS": 12, "TARGETS": 1, "SHADOWS": 4}.items():
        monkeypatch.setattr(attacks, name, value)


def test_two_summaries_give_a_row_away_unless_they_are_noisy(few):
    plain, guarded, private = (
        AttackCell("differencing", "mixture", how).compute()
        for how in ("nothing", "guard", "epsilon 4")
    )
    assert plain["recovered"] == 3
    assert max(plain["errors"]) < 1e-10
    assert guarded["recovered"] == private["recovered"] == 0
    assert min(private["errors"]) > 0.1


def test_a_row_by_hand():
    before = Summary(3, [[0.0], [5.0]], counts=[2, 1])
    after = Summary(4, [[2.0], [5.0]], counts=[3, 1])  # 6 was added to the first cluster
    assert [guess.tolist() for guess in attacks.row_guesses(before, after)] == [[6.0], [6.0]]
    lost, gained = np.array([[3.0, 10.0], [1.0, 4.0]]), np.array([[2.0, 7.0], [2.0, 7.0]])
    assert attacks._movers(lost, gained).tolist() == [[3.0]]
    assert attacks._movers(lost, lost).shape == (0, 1)


def test_who_knows_all_other_rows_has_no_doubt_without_noise(few):
    plain, private = (
        AttackCell("all but one", "mixture", how).compute()
        for how in ("guard, rounded counts", "epsilon 0.5")
    )
    assert min(plain["with"]) > 0 > max(plain["without"])
    assert len(private["with"]) == len(private["without"]) == 12
    assert np.abs([private["with"], private["without"]]).max() < 1
    assert tables._advantage([plain]) == ["1.00", "100 %"]


def test_who_knows_the_population_fits_what_summaries_say(few):
    row = AttackCell("population", "digits", "nothing").compute()
    assert len(row["with"]) == len(row["without"]) == 4
    assert np.isfinite([*row["with"], *row["without"]]).all()
    apart = {"with": np.array([[1.0], [1.1], [0.9]]), "without": np.array([[0.0], [0.1], [-0.1]])}
    apart = {name: np.hstack([f, f**2 + np.eye(3)[:, :1]]) for name, f in apart.items()}
    assert min(attacks._left_out_scores(apart, "with")) > 0
    assert max(attacks._left_out_scores(apart, "without")) < 0


def test_several_rounds_give_rows_away_unless_they_are_noisy():
    plain, private = (
        AttackCell("rounds", "overlap", how, n_rounds=5).compute()
        for how in ("nothing", "epsilon 4")
    )
    assert plain["recovered"] > 5
    assert private["recovered"] == 0
    fewer = AttackCell("rounds", "overlap", "epsilon 4", n_rounds=3).compute()
    assert private["count_noise"] / fewer["count_noise"] == pytest.approx((5 / 3) ** 0.5)


def test_noise_of_two_answers_is_never_the_same(few):
    cell = AttackCell("differencing", "mixture", "epsilon 4")
    seeds = []
    made = attacks.AttackCell.client

    def client(self, rows, noise_seed=0, name="a"):
        seeds.append(noise_seed)
        return made(self, rows, noise_seed, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attacks.AttackCell, "client", client)
        attacks.differencing(cell)
    assert len(set(seeds)) == len(seeds) == 6


def test_bounds_on_the_advantage():
    assert tables._bound("epsilon 1") == "0.46"
    assert tables._bound("guard") == "none"


def test_tables_of_rows(few):
    rows = [
        AttackCell("differencing", "mixture", "nothing").compute(),
        AttackCell("rounds", "overlap", "epsilon 1", n_rounds=3).compute(),
        AuditCell("shared", 0.5, 400, epsilon=4.0).compute(),
        {"ratio": 1.0},  # of another part of the study
    ]
    assert re.search(
        r"\| nothing \| \de-1\d \| 3 of 3 \| – \| – \|", tables.differencing_table(rows)
    )
    assert "| epsilon 1 | 0 of " in tables.rounds_table(rows)
    assert "| shared cells | half | 800 | 4 |" in tables.audit_table(rows)
    assert tables.audit_table(rows).count("| broken |") == 1
    assert tables.membership_table(rows).count("–") == 4 * len(PROTECTIONS)


def test_the_study_has_all_attacks():
    names = [plan.name for plan in attack_plans()]
    assert len(set(names)) == len(names) == 36
    assert {name.split("/")[0] for name in names} == set(attacks.ATTACKS)
    assert set(names) <= {plan.name for plan in studies()["privacy"].plans}
