"""Traces in the formats that there are."""

import random

import numpy as np
import pytest

from opentela.core.errors import UsageError
from opentela.placer.replay.trace import BLOCK_TOKENS, Means, means, parsed, together

CSV = "arrival_s,in_tokens,out_tokens\n5.0,100,10\n6.0,0,20\n4.0,7,3\n"
RATES = "client,window_s,rate_rps,cv\na#1,0,2.0,1.0\na#1,600,0.0,1.0\nb#2,600,4.0,3.0\n"
CLIENTS = (
    "pool,client,in_tokens_mean,out_tokens_mean\nlanguage/a,1,100,50\nlanguage/a,2,,\nother/b,2,,\n"
)


def _rng() -> random.Random:
    return random.Random(1)


def test_csv_is_sorted_and_begins_at_zero() -> None:
    """Without a model column all is one model; no request is empty."""
    trace = parsed(CSV, "chat", _rng())
    assert trace.models == ("chat",)
    assert trace.requests.arrival_s.tolist() == [0.0, 1.0, 2.0]
    assert trace.requests.in_tokens.tolist() == [7, 100, 1]
    assert trace.duration_s == 2.0
    two = parsed("arrival_s,in_tokens,out_tokens,model\n0,1,1,x\n1,1,1,y\n", "n", _rng())
    assert two.models == ("x", "y")
    assert len(two.of(1)) == 1
    assert len(two.between(0.5, 9.0).requests) == 1


def test_json_lines_know_what_is_cached() -> None:
    """The leading blocks that were seen before are no work; at least one token is."""
    lines = (
        '{"timestamp": 0, "input_length": 1024, "output_length": 5, "hash_ids": [1, 2]}\n'
        '{"timestamp": 2000, "input_length": 1500, "output_length": 5, "hash_ids": [1, 3, 2]}\n'
        '{"timestamp": 3000, "input_length": 1024, "output_length": 5, "hash_ids": [1, 2]}\n'
    )
    trace = parsed(lines, "m", _rng())
    assert trace.requests.arrival_s.tolist() == [0.0, 2.0, 3.0]
    assert trace.requests.prefix_hit_tokens.tolist() == [0, BLOCK_TOKENS, 1023]


def test_rates_become_requests() -> None:
    """As many as the rate says, of the clients' lengths, and repeatable."""
    lengths = means(CLIENTS)
    assert lengths["a#1"] == lengths["a#2"] == Means(100.0, 50.0)
    trace = parsed(RATES, "x", _rng(), lengths=lengths)
    assert trace.models == ("a#1", "b#2")
    first, second = trace.of(0), trace.of(1)
    assert len(first) == pytest.approx(1200, rel=0.1)
    assert len(second) == pytest.approx(2400, rel=0.2)
    assert first.in_tokens.mean() == pytest.approx(100, rel=0.1)
    assert first.arrival_s.max() < 600
    assert second.arrival_s.min() > 500
    again = parsed(RATES, "x", _rng(), lengths=lengths)
    assert np.array_equal(again.requests.arrival_s, trace.requests.arrival_s)
    gaps = np.diff(second.arrival_s)
    assert gaps.std() / gaps.mean() > 2


def test_scale_leaves_out_or_doubles() -> None:
    """Bursts stay where they are."""
    text = "arrival_s,in_tokens,out_tokens\n" + "".join(f"{i},9,9\n" for i in range(2000))
    assert len(parsed(text, "m", _rng(), scale=0.25).requests) == pytest.approx(500, rel=0.15)
    more = parsed(text, "m", _rng(), scale=3.0).requests
    assert len(more) == pytest.approx(6000, rel=0.1)
    assert np.all(np.diff(more.arrival_s) >= 0)
    with pytest.raises(UsageError, match="leaves no request"):
        parsed(CSV, "m", _rng(), scale=1e-6)
    with pytest.raises(UsageError, match="leaves no request"):
        parsed(RATES, "m", _rng(), scale=1e-9)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a,b,c\n1,2,3\n", "begins with 'a,b,c', which is no known format"),
        (
            "arrival_s,in_tokens,out_tokens\n1,x,3\n",
            "line 2: in_tokens = 'x' is no number from 0 to",
        ),
        ("arrival_s,in_tokens,out_tokens\n", "holds no request"),
        ('{"timestamp": 1}\n', "line 1: input_length is missing"),
        ("client,window_s,rate_rps,cv\na,0,x,1\n", "line 2: rate_rps = 'x' is no number"),
        ("client,window_s,rate_rps,cv\na,0,nan,1\n", "line 2: rate_rps = 'nan' is no number"),
        ("client,window_s,rate_rps,cv\na,0,1e8,1\n", "has 6e+10 requests, and 2e+07 are too"),
        (
            '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": 3}',
            "hash_ids is no",
        ),
    ],
)
def test_what_is_no_trace_is_told(text: str, fault: str) -> None:
    """With the line where there is one."""
    with pytest.raises(UsageError) as raised:
        parsed(text, "m", _rng())
    assert fault in str(raised.value)


def test_what_is_too_much_says_which_share_of_it_would_do() -> None:
    """Memory has room for so many."""
    with pytest.raises(UsageError) as raised:
        parsed("client,window_s,rate_rps,cv\na,0,1e5,1\n", "m", _rng())
    assert raised.value.remedy == "give --scale 0.3 or less"
    with pytest.raises(UsageError, match="too many"):
        parsed(CSV, "m", _rng(), scale=1e9)


def test_a_file_of_another_system_is_read() -> None:
    """With a mark at its beginning, and other ends of lines."""
    assert len(parsed("\ufeff" + CSV.replace("\n", "\r\n"), "m", _rng()).requests) == 3


def test_several_traces_run_from_the_same_instant_on() -> None:
    """Each begins at zero; a model that two name is one; requests are in order of arrival."""
    one = parsed("arrival_s,in_tokens,out_tokens\n0,1,1\n5,2,1\n", "a", _rng())
    other = parsed("arrival_s,in_tokens,out_tokens,model\n1,3,1,b\n6,4,1,a\n", "x", _rng())
    both = together([one, other])
    assert both.models == ("a", "b")
    assert [both.models[index] for index in both.model] == ["a", "b", "a", "a"]
    assert both.requests.in_tokens.tolist() == [1, 3, 2, 4]
    assert both.requests.arrival_s.tolist() == [0.0, 0.0, 5.0, 5.0]
