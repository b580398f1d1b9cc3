"""Votes: ADK's majority, and stopping early without another outcome."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from agent_eval.criteria.judged.judge import decided, lower_median, needed

SCALES = st.sampled_from([(0.0, 1.0), (0.0, 0.5, 1.0), (1.0, 2.0, 3.0, 4.0, 5.0)])
BINARY = (0.0, 1.0)


@st.composite
def elections(draw: st.DrawFn) -> tuple[Sequence[float], list[float | None]]:
    """A scale, and the vote of each sample; None for no vote."""
    scale = draw(SCALES)
    return scale, draw(st.lists(st.one_of(st.none(), st.sampled_from(scale), st.sampled_from(scale)), max_size=12))


def cast(samples: Sequence[float | None]) -> list[float]:
    return [sample for sample in samples if sample is not None]


@given(st.lists(st.sampled_from(BINARY), min_size=1, max_size=15))
def test_lower_median__majority_of_yes_and_no(votes: list[float]) -> None:
    assert lower_median(votes) == (1.0 if votes.count(1.0) > votes.count(0.0) else 0.0)


@given(elections())
def test_needed__stopping_early_keeps_the_outcome(election: tuple[Sequence[float], list[float | None]]) -> None:
    scale, samples = election
    taken = 0
    while count := needed(cast(samples[:taken]), len(samples) - taken, scale):
        taken += count

    assert lower_median(cast(samples[:taken])) == lower_median(cast(samples))
    assert taken <= len(samples)


@given(elections())
def test_needed__is_the_minimum(election: tuple[Sequence[float], list[float | None]]) -> None:
    scale, samples = election
    taken = 0
    while count := needed(cast(samples[:taken]), len(samples) - taken, scale):
        for shorter in range(1, count):
            assert not decided(cast(samples[: taken + shorter]), len(samples) - taken - shorter, scale)
        taken += count


def test_decided__sample_without_a_vote() -> None:
    assert not decided([], 1, BINARY)
    assert lower_median([]) is None
