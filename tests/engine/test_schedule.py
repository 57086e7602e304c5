# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st

from lmeval.engine.kinds import TextRequest
from lmeval.engine.schedule import Request, RequestQueue, Tally, Ticket

GREEDY = TextRequest(None, ())


def requests(*prompts, kind=GREEDY):
    ticket = Ticket(len(prompts), Tally("t"))
    return [Request(kind, text, None, 0, (ticket, place)) for place, text in enumerate(prompts)]


def taken(queue, idle_workers=1):
    batches = []
    while batch := queue.take(idle_workers):
        batches.append([request.payload for request in batch])
    return batches


def test_longest_first_and_equal_lengths_in_the_order_of_arrival():
    queue = RequestQueue(2, None)
    queue.add(requests("b", "a", "ccc", "dd", "ee"))
    assert taken(queue) == [["ccc", "dd"], ["ee", "b"], ["a"]]


def test_the_order_is_kept_for_a_model_that_wants_it():
    queue = RequestQueue(2, None, keeps_order=True)
    queue.add(requests("b", "a", "ccc", "dd"))
    assert taken(queue) == [["b", "a"], ["ccc", "dd"]]


def test_kinds_are_never_mixed_and_take_turns():
    queue = RequestQueue(2, None)
    queue.add(requests("a1", "a2", "a3"))
    queue.add(requests("b1", "b2", "b3", kind=TextRequest(5, ())))
    assert taken(queue) == [["a1", "a2"], ["b1", "b2"], ["a3"], ["b3"]]


def test_few_requests_are_shared_out_between_idle_workers():
    queue = RequestQueue(32, None)
    queue.add(requests(*"abcdefghij"))
    assert [len(queue.take(idle)) for idle in (4, 3, 2, 1)] == [3, 3, 2, 2]
    assert not queue


def test_requests_of_a_call_that_has_failed_are_left_out():
    queue = RequestQueue(32, None)
    wanted, unwanted = requests("a"), requests("b", "c")
    queue.add(wanted + unwanted)
    unwanted[0].waiters[0][0].fail(ValueError())
    assert taken(queue) == [["a"]]


@given(
    lengths=st.lists(st.integers(0, 30), max_size=40),
    batch_size=st.integers(1, 8),
    batch_chars=st.none() | st.integers(1, 60),
    idle_workers=st.integers(1, 5),
)
def test_every_request_is_in_one_batch_and_no_batch_is_too_large(
    lengths, batch_size, batch_chars, idle_workers
):
    queue = RequestQueue(batch_size, batch_chars)
    queue.add(requests(*["x" * length for length in lengths]))
    batches = taken(queue, idle_workers)
    assert sorted(len(text) for batch in batches for text in batch) == sorted(lengths)
    for batch in batches:
        assert 1 <= len(batch) <= batch_size
        padded = max(map(len, batch)) * len(batch)
        assert batch_chars is None or len(batch) == 1 or padded <= batch_chars
