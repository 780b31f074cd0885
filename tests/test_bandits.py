"""Bandits on their own: exact draws that look at few arms, games, and HOO."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special, stats

import abctree
from abctree import ParameterError
from abctree.kernels import bandits, beta, transport

pytestmark = pytest.mark.xdist_group("bandits")  # they share kernels that no run compiles
ALPHA_LEVEL = 1e-4


def beliefs(k, rng, pulls=30):
    """Beliefs of arms that have been played a little; a few are in play."""
    n = rng.integers(1, pulls, k)
    accepted = rng.binomial(n, np.sort(rng.random(k)) * 0.5)
    return 1.0 + accepted, 1.0 + n - accepted


def probabilities_of_winning(a, b, weight=None):
    """(K,) P(arm k has the largest value), by quadrature on the logit scale."""
    weight = np.ones(len(a)) if weight is None else weight
    value = special.expit(np.linspace(-14.0, 14.0, 6_001)) * weight.max()
    cdf = stats.beta.cdf(value[:, None] / weight, a, b)
    log_cdf = np.log(np.maximum(cdf, 1e-200))
    log_all = log_cdf.sum(axis=1)[:, None] - log_cdf
    middle = 0.5 * (np.exp(log_all[1:]) + np.exp(log_all[:-1]))
    return (middle * np.diff(cdf, axis=0)).sum(axis=0)


def p_value(played, probability):
    """Of a χ² test of arms against probabilities, rare arms put together."""
    count = np.bincount(played, minlength=len(probability))
    common = probability * len(played) > 10.0
    seen = np.append(count[common], count[~common].sum())
    expected = np.append(probability[common], probability[~common].sum()) * len(played)
    if expected[-1] < 1.0:
        assert seen[-1] <= 6
        seen, expected = seen[:-1], expected[:-1]
    return stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue


# Draws --------------------------------------------------------------------------------------------


def test_beta_above_is_the_tail_of_the_beta_law():
    a, b, x = np.meshgrid([0.01, 0.3, 1.0, 7.0, 900.0], [0.02, 1.0, 40.0, 5e4], [1e-9, 0.01, 0.7])
    ours = [beta.beta_above(*v) for v in zip(x.ravel(), a.ravel(), b.ravel(), strict=True)]
    assert ours == pytest.approx(
        stats.beta.sf(x.ravel(), a.ravel(), b.ravel()), rel=1e-8, abs=1e-290
    )


def test_beta_above_knows_point_masses():
    assert beta.beta_above(0.5, 0.0, 3.0) == 0.0
    assert beta.beta_above(0.5, 3.0, 0.0) == 1.0
    assert beta.beta_above(1.0, 3.0, 0.0) == 0.0


@pytest.mark.parametrize(
    ("a", "b", "x"), [(0.2, 3.0, 0.3), (5.0, 2.0, 0.95), (40.0, 400.0, 0.2), (1.0, 1.0, 0.99)]
)
def test_draws_above_a_level_have_the_law_of_the_tail(a, b, x, rng):
    above = beta.beta_above(x, a, b)
    drawn = np.array([beta.beta_draw_above(x, a, b, above, rng) for _ in range(4_000)])
    tail = stats.beta.sf(drawn, a, b) / above
    assert drawn.min() > x
    assert stats.kstest(tail, "uniform").pvalue > ALPHA_LEVEL


def test_draws_above_a_level_are_told_from_those_of_another_level(rng):
    above = beta.beta_above(0.2, 40.0, 400.0)
    drawn = np.array([beta.beta_draw_above(0.2, 40.0, 400.0, above, rng) for _ in range(4_000)])
    other = stats.beta.sf(drawn, 40.0, 400.0) / beta.beta_above(0.195, 40.0, 400.0)
    assert stats.kstest(other, "uniform").pvalue < ALPHA_LEVEL


@pytest.mark.parametrize("k", [5, 60, 700])
def test_pulls_play_the_best_arm_of_a_draw_exactly_in_law(k, rng):
    a, b = beliefs(k, rng)
    played = bandits.pulls(a, b, np.ones(k), 40_000, 1.0, False, rng)
    assert p_value(played, probabilities_of_winning(a, b)) > ALPHA_LEVEL
    # The twin: one belief is another by a single rejection.
    leader = np.argmax(np.bincount(played, minlength=k))
    b[leader] += 1.0
    assert p_value(played, probabilities_of_winning(a, b)) < ALPHA_LEVEL


def test_pulls_weigh_the_arms(rng):
    a, b = beliefs(60, rng)
    weight = np.exp(rng.normal(size=60))
    weight /= weight.max()
    played = bandits.pulls(a, b, weight, 40_000, 1.0, False, rng)
    assert p_value(played, probabilities_of_winning(a, b, weight)) > ALPHA_LEVEL
    assert p_value(played, probabilities_of_winning(a, b)) < ALPHA_LEVEL


def test_a_sampler_whose_beliefs_change_stays_exact(rng):
    """The level and the Poisson process are brought up to date pull by pull."""
    mu = np.sort(rng.random(80)) * 0.6
    s = bandits.sampler(np.ones(80), np.ones(80), np.ones(80), rng)
    for _ in range(3_000):
        arm = bandits.winner(s, rng)
        y = float(rng.random() < mu[arm])
        s.alpha[arm] += y
        s.beta[arm] += 1.0 - y
        bandits.refresh(s, arm, rng)
    played = np.array([bandits.winner(s, rng) for _ in range(15_000)])
    assert p_value(played, probabilities_of_winning(s.alpha, s.beta)) > ALPHA_LEVEL
    stale = s.beta.copy()
    stale[np.argmax(np.bincount(played))] += 4.0
    assert p_value(played, probabilities_of_winning(s.alpha, stale)) < ALPHA_LEVEL


def test_arms_that_are_known_to_accept_or_reject_have_values_one_and_zero(rng):
    a, b = np.full(60, 2.0), np.full(60, 9.0)
    a[7], b[7] = 0.0, 5.0
    assert 7 not in bandits.pulls(a, b, np.ones(60), 5_000, 1.0, False, rng)
    a[7], b[7] = 5.0, 0.0
    assert (bandits.pulls(a, b, np.ones(60), 500, 1.0, False, rng) == 7).all()


def test_the_second_arm_of_top_two_has_the_law_of_a_draw_that_another_wins(rng):
    a, b = beliefs(60, rng)
    probability = probabilities_of_winning(a, b)
    s = bandits.sampler(a, b, np.ones(60), rng)
    first = int(np.argmax(probability))
    second = np.array([bandits.other_winner(s, first, rng) for _ in range(15_000)])
    others = np.where(np.arange(60) == first, 0.0, probability)
    assert first not in second
    assert p_value(second, others / others.sum()) > ALPHA_LEVEL


def test_a_search_for_a_second_arm_ends_with_the_one_that_is_hardest_to_tell(rng):
    """Not with the runner-up, arm 1, which has been played so much that it is out of question."""
    a = np.array([9_000.0, 5_000.0, 20.0])
    b = np.array([1_000.0, 5_000.0, 60.0])
    played = bandits.pulls(a, b, np.ones(3), 400, 0.5, False, rng)
    assert set(played) == {0, 2}
    assert transport.challenger(a, b, np.ones(3), 0) == 2
    costs = [transport.transport_cost(a, b, np.ones(3), 0, k) for k in (1, 2)]
    assert costs[0] > 10.0 * costs[1]


# Evidence and shares ------------------------------------------------------------------------------


def kl(p, q):
    return special.rel_entr(p, q) + special.rel_entr(1.0 - p, 1.0 - q)


def least_cost(n1, m1, w1, n2, m2, w2):
    return optimize.minimize_scalar(
        lambda t: n1 * kl(m1, t / w1) + n2 * kl(m2, t / w2),
        bounds=(w2 * m2, min(w1 * m1, (1.0 - 1e-9) * w2)), method="bounded",
        options={"xatol": 1e-12},
    ).fun  # fmt: skip


def test_transport_cost_is_the_least_divergence_to_equal_values(rng):
    for _ in range(50):
        a, b, w = 50 * rng.random(2), 50 * rng.random(2), rng.random(2)
        n, m = a + b, a / (a + b)
        first = int(w[1] * m[1] > w[0] * m[0])
        i = [first, 1 - first]
        expected = least_cost(n[i[0]], m[i[0]], w[i[0]], n[i[1]], m[i[1]], w[i[1]])
        assert transport.transport_cost(a, b, w, *i) == pytest.approx(expected, rel=1e-6)
        assert transport.transport_cost(a, b, w, *i[::-1]) == 0.0


@pytest.mark.slow
def test_optimal_share_maximises_the_exponent_of_theorem_2():
    mu = np.array([0.6, 0.5, 0.45, 0.2])
    share = transport.optimal_share(1e9 * mu, 1e9 * (1.0 - mu), np.ones(4), 10)

    def exponent(first):
        """The largest over the other shares, by equal costs."""

        def total(y):
            def need(k):
                def gap(x):
                    return least_cost(first, mu[0], 1.0, x, mu[k], 1.0) - y

                return optimize.brentq(gap, 1e-9, 1e3)

            return sum(need(k) for k in (1, 2, 3)) - (1.0 - first)

        return optimize.brentq(total, 1e-6, 0.999 * first * kl(mu[0], mu[1]))

    assert exponent(share) > exponent(share - 0.03)
    assert exponent(share) > exponent(share + 0.03)
    assert transport.optimal_share(np.ones(3), np.ones(3), np.ones(3), 10) == 0.5


# Games --------------------------------------------------------------------------------------------


def test_a_game_is_repeated_by_its_seed_and_counts_its_pulls():
    mu = [0.2, 0.6, 0.4]
    one, two = (abctree.bandits.top_two(mu, 2_000, rng=5) for _ in range(2))
    assert np.array_equal(one.arm, two.arm)
    assert one.pulls.sum() == 2_000
    assert one.best == 1
    assert one.mean == pytest.approx(
        [(one.reward[one.arm == k].sum() + 1) / (one.pulls[k] + 2) for k in range(3)]
    )
    assert one.regret(mu)[-1] == pytest.approx(0.4 * one.pulls[0] + 0.2 * one.pulls[2])


def test_thompson_sampling_regrets_less_than_uniform_pulls():
    mu = np.linspace(0.1, 0.7, 60)
    thompson = abctree.bandits.thompson_sampling(mu, 5_000, rng=1).regret(mu)[-1]
    assert thompson < 0.4 * abctree.bandits.uniform(mu, 5_000, rng=1).regret(mu)[-1]


def test_top_two_pulls_the_best_arm_about_half_of_the_time():
    game = abctree.bandits.top_two([0.7, 0.3, 0.2], 20_000, rng=1)
    assert game.pulls[0] / 20_000 == pytest.approx(0.5, abs=0.03)
    assert abctree.bandits.thompson_sampling([0.7, 0.3, 0.2], 20_000, rng=1).pulls[0] > 19_000


def test_a_block_is_played_on_the_beliefs_at_its_start():
    game = abctree.bandits.thompson_sampling([0.0, 1.0], 400, block=200, rng=1)
    assert abs(game.pulls[0] - 100) < 40  # the first half does not know better, the second does
    assert (game.arm[200:] == 1).all()


def test_ucb_pulls_the_largest_index():
    game = abctree.bandits.ucb([0.3, 0.5, 0.1, 0.45], 400, rng=2)
    count, total = np.zeros(4), np.zeros(4)
    for t, (arm, reward) in enumerate(zip(game.arm, game.reward, strict=True)):
        if t < 4:
            assert arm == t
        else:
            index = total / count + np.sqrt(2.0 * np.log(t) / count)
            assert index[arm] == pytest.approx(index.max())
        count[arm] += 1.0
        total[arm] += reward


def test_identified_counts_games_that_know_the_best_arm():
    """Five pulls of each of two arms: the better one wins, and ties go to the first."""
    first, second = stats.binom(5, 0.4), stats.binom(5, 0.7)
    right = sum(second.pmf(k) * first.cdf(k - 1) for k in range(6))
    n = 20_000
    share = abctree.bandits.identified([0.5, 0.5], [0.4, 0.7], [10], n, rng=3)[0] / n
    error = np.sqrt(right * (1.0 - right) / n)
    assert abs(share - right) < 4.0 * error
    uneven = abctree.bandits.identified([0.2, 0.8], [0.4, 0.7], [10], n, rng=3)[0] / n
    assert abs(uneven - right) > 4.0 * error


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: abctree.bandits.top_two([0.5], 10, b=0.0), "`b` must be in"),
        (lambda: abctree.bandits.top_two([0.5], 10, challenger="x"), "`challenger` must be"),
        (lambda: abctree.bandits.thompson_sampling([1.5], 10), "`mu` must be rates"),
        (lambda: abctree.bandits.thompson_sampling([0.5], 0), "`budget` must be"),
        (lambda: abctree.bandits.ucb([0.5], 10, scale=-1.0), "`scale` must be"),
        (lambda: abctree.bandits.identified("x", [0.5], [10], 1), "`rule` must be one of"),
        (
            lambda: abctree.bandits.identified([0.4, 0.4], [0.5, 0.2], [10], 1),
            "shares that sum to one",
        ),
        (lambda: abctree.bandits.identified("ucb", [0.5], [10, 5], 1), "`checkpoints` must be"),
        (lambda: abctree.bandits.hoo(lambda _: 1.0, 1, 10, rho=0.0), "`rho` must be"),
        (lambda: abctree.bandits.hoo(lambda _: 1.0, 0, 10), "`d` must be at least 1"),
    ],
)
def test_an_argument_that_breaks_its_rule_is_named(call, says):
    with pytest.raises(ParameterError, match=says):
        call()


# HOO ----------------------------------------------------------------------------------------------


def smooth(point):
    return float(np.exp(-20.0 * ((point - 0.3) ** 2).sum()))


@pytest.mark.parametrize(("nu1", "rho"), [(1.0, 0.5), (0.3, 0.8)])
def test_hoo_evaluates_the_points_of_an_independent_implementation(nu1, rho):
    pyxab = pytest.importorskip("PyXAB.algos.HOO")
    theirs = pyxab.T_HOO(nu=nu1, rho=rho, rounds=300, domain=[[0.0, 1.0]])
    points = []
    for t in range(300):
        point = theirs.pull(t)
        points.append(point[0])
        theirs.receive_reward(t, smooth(np.array(point)))
    ours = abctree.bandits.hoo(smooth, 1, 300, nu1=nu1, rho=rho)
    assert ours.point[:, 0] == pytest.approx(points)
    other = abctree.bandits.hoo(smooth, 1, 300, nu1=2.0 * nu1, rho=rho)
    assert other.point[:, 0] != pytest.approx(points)


def test_hoo_finds_the_largest_mean_of_a_random_reward(rng):
    found = abctree.bandits.hoo(lambda u: float(rng.random() < smooth(u)), 2, 4_000, rho=0.7)
    assert np.abs(found.most_played - 0.3).max() < 0.1
    assert found.point.shape == (4_000, 2)


def test_hoo_cuts_no_deeper_than_it_is_told():
    deep = abctree.bandits.hoo(smooth, 1, 200, rho=0.5, truncate=False).point[:, 0]
    short = abctree.bandits.hoo(smooth, 1, 200, rho=0.5).point[:, 0]
    depth = np.ceil(0.5 * np.log(200) / np.log(2.0)) + 1
    assert (np.rint(short * 2 ** (depth + 1)) == short * 2 ** (depth + 1)).all()
    assert (np.rint(deep * 2 ** (depth + 1)) != deep * 2 ** (depth + 1)).any()
