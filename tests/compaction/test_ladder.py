"""The steps of a summary that the model's server refuses."""

from __future__ import annotations

import pytest

from prime_ext.compaction.ladder import MOST_REQUESTS, steps_for


@pytest.mark.parametrize(
    ("requests", "steps"),
    [
        (MOST_REQUESTS, ["whole", "bare", "fit", "lossy"]),
        # Behind a note that was waited for, or where a summary may take two requests.
        (3, ["whole", "fit", "lossy"]),
        (2, ["whole", "lossy"]),
        (1, ["whole"]),
    ],
)
def test_no_compaction_takes_more_than_four_requests(requests: int, steps: list[str]) -> None:
    assert steps_for(requests) == steps
