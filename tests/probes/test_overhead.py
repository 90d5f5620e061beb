"""The overhead is the time of capture over that of a plain forward, round by round."""

from typing import Any

import pytest

from probes import overhead


def test_the_median_of_paired_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain takes 2 s; capture 9 s in the round that is not counted, then 2, 3 and 4 s."""
    now, captures = 0.0, iter([9.0, 2.0, 3.0, 4.0])

    def plain(*_: Any) -> None:
        nonlocal now
        now += 2.0

    def rows(*_: Any, **__: Any) -> None:
        nonlocal now
        now += next(captures)

    monkeypatch.setattr(overhead, "plain_forward", plain)
    monkeypatch.setattr(overhead, "context_rows", rows)
    found = overhead.capture_overhead(None, None, rounds=3, clock=lambda: now)  # type: ignore[arg-type]
    assert found == 1.5  # ratios 1, 1.5, 2


@pytest.mark.model
def test_on_smollm2_capture_costs_about_a_forward() -> None:
    import hatlens as hl
    from hatlens.measure import tokenize_sets
    from hatlens.sets import MAIN, draw_sets

    config = hl.StudyConfig.model_validate({"contexts": 1, "pairs": 0})
    loaded = hl.load_model("smollm2-135m")
    (tokens,) = tokenize_sets(config, draw_sets(config), loaded)[MAIN]
    assert overhead.capture_overhead(loaded, tokens, rounds=1) > 0
