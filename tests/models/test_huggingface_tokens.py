# SPDX-License-Identifier: Apache-2.0
"""Where a target begins, what comes first, what fits."""

import pytest
from hf_tiny import CHAT_TEMPLATE, make_tokenizer
from hypothesis import given
from hypothesis import strategies as st

from lmeval.api.errors import ModelError
from lmeval.models.hf.tokens import Chat, Pair, Tokens, cut_left, fit, rolling_windows

BOS, EOS, END = 0, 1, 2


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="module")
def tokens(tokenizer):
    return Tokens(tokenizer, add_bos=None)


@pytest.fixture(scope="module")
def bos_tokens():
    return Tokens(make_tokenizer(adds_bos=True), add_bos=None)


def pair(tokens, context, target, **settings):
    return tokens.pairs([context], [[target]], **settings)[0][0]


def words(tokens, ids):
    return [tokens.tokenizer.decode([token]) for token in ids]


@pytest.mark.parametrize(
    ("context", "target", "context_words", "target_words"),
    [
        ("the capital", " of France", ["the", " capital"], [" of", " France"]),
        # The blank at the end belongs to the next word's token.
        ("the capital ", "of France", ["the", " capital"], [" of", " France"]),
        ("the capital", "", ["the", " capital"], []),
    ],
)
def test_target_tokens_are_those_of_the_joined_text(
    tokens, context, target, context_words, target_words
):
    found = pair(tokens, context, target)
    assert words(tokens, found.context) == context_words
    assert words(tokens, found.target) == target_words
    assert not found.spans_join


@pytest.mark.parametrize(
    ("context", "target", "context_words", "target_words"),
    [
        ("hello wor", "ld", ["hello"], [" world"]),
        ("the Pa", "ris", ["the"], [" Paris"]),
        # Nothing is left of the context, so BOS stands in its place.
        ("hel", "lo", ["<s>"], ["hello"]),
    ],
)
def test_a_token_across_the_join_belongs_to_the_target(
    tokens, context, target, context_words, target_words
):
    found = pair(tokens, context, target)
    assert words(tokens, found.context) == context_words
    assert words(tokens, found.target) == target_words
    assert found.spans_join


def test_without_character_positions_the_unchanged_tokens_stay_context(tokens):
    class Slow:
        def __getattr__(self, name):
            return False if name == "is_fast" else getattr(tokens.tokenizer, name)

        def __call__(self, *args, **settings):
            assert "return_offsets_mapping" not in settings
            return tokens.tokenizer(*args, **settings)

    found = pair(Tokens(Slow(), None), "hello wor", "ld")
    assert (words(tokens, found.context), words(tokens, found.target)) == (["hello"], [" world"])


@pytest.mark.parametrize("context", ["", "  ", "\n"])
def test_an_empty_context_is_bos(tokens, context):
    found = pair(tokens, context, "hello")
    assert found.context == (BOS,)
    assert tokens.decode(found.target) == context + "hello"


@pytest.mark.parametrize("text", ["hello", "<s>hello"])
def test_bos_stands_once_where_the_tokenizer_adds_it(bos_tokens, text):
    (ids,) = bos_tokens.encode([text])
    assert ids.count(BOS) == 1
    assert ids[0] == BOS
    assert pair(bos_tokens, text, " world").context == ids


def test_bos_stands_once_across_the_join(bos_tokens):
    found = pair(bos_tokens, "hello wor", "ld")
    assert words(bos_tokens, found.context) == ["<s>", "hello"]
    found = pair(bos_tokens, "<s>hello wor", "ld")
    assert words(bos_tokens, found.context) == ["<s>", "hello"]


def test_add_bos_overrides_the_tokenizer(tokenizer):
    assert Tokens(tokenizer, add_bos=True).encode(["hello"])[0][0] == BOS
    assert Tokens(make_tokenizer(adds_bos=True), add_bos=False).encode(["hello"])[0][0] != BOS


def test_without_bos_and_eos_an_empty_context_is_an_error():
    tokenizer = make_tokenizer()
    tokenizer.bos_token = tokenizer.eos_token = None
    tokens = Tokens(tokenizer, None)
    with pytest.raises(ModelError, match="neither a BOS nor an EOS"):
        tokens.pairs([""], [["hello"]])
    with pytest.raises(ModelError, match="has no BOS"):
        Tokens(tokenizer, add_bos=True)


@pytest.mark.parametrize(
    ("limit", "context", "scored"),
    # One token a character: context "abc", target "de" (public case P077).
    [(2, "c", "de"), (3, "bc", "de"), (5, "abc", "de")],
)
def test_a_short_window_cuts_the_context_and_never_the_target(limit, context, scored):
    request = fit(Pair(tuple("abc"), tuple("de"), False), limit, ())
    assert request.tokens == (*context, *scored)
    assert request.scored_from == len(context)


def test_a_target_without_room_does_not_fit():
    assert fit(Pair(tuple("abc"), tuple("abcdef"), False), 3, ()) is None


@pytest.mark.parametrize(
    ("ids", "room", "expected"),
    [
        ("^abc", 4, "^abc"),
        ("^abc", 3, "^bc"),
        ("^abc", 2, "^c"),
        ("^abc", 1, "^"),
        ("abc", 2, "bc"),
    ],
)
def test_the_prefix_survives_a_cut(ids, room, expected):
    assert "".join(cut_left(tuple(ids), room, ("^",))) == expected


@given(n=st.integers(0, 40), limit=st.integers(1, 12))
def test_rolling_windows_score_each_token_once_with_as_much_context_as_fits(n, limit):
    ids = tuple(range(1, n + 1))
    windows = rolling_windows(ids, (0,), limit)
    assert [t for w in windows for t in w.tokens[w.scored_from :]] == list(ids)
    for window in windows:
        assert 1 <= window.scored_from <= len(window.tokens) - 1 <= limit
        # Consecutive numbers, so nothing is left out between context and target.
        assert list(window.tokens) == list(range(window.tokens[0], window.tokens[-1] + 1))
        assert len(window.tokens) == limit + 1 or window.tokens[0] == 0


def test_chat_prompt_and_end_of_turn():
    tokenizer = make_tokenizer(adds_bos=True, chat_template=CHAT_TEMPLATE)
    chat = Chat(tokenizer, system_prompt=None)
    text = chat.prompt((("user", "hello"), ("assistant", "world"), ("user", "who?")))
    assert text == (
        "<s><|user|>\nhello<|end|>\n<|assistant|>\nworld<|end|>\n<|user|>\nwho?<|end|>\n"
        "<|assistant|>\n"
    )
    assert chat.end_of_turn() == {END}
    (ids,) = Tokens(tokenizer, None).encode([text])
    assert ids.count(BOS) == 1


@pytest.mark.parametrize(
    ("messages", "system"),
    [([("user", "x")], "Be brief."), ([("system", "Mind."), ("user", "x")], "Be brief.\n\nMind.")],
)
def test_system_prompt_comes_first(messages, system):
    chat = Chat(make_tokenizer(chat_template=CHAT_TEMPLATE), "Be brief.")
    assert chat.prompt(messages).startswith(f"<s><|system|>\n{system}<|end|>\n<|user|>\nx")


def test_a_template_that_refuses_is_one_sentence():
    refusing = "{{ raise_exception('System role not supported') }}"
    chat = Chat(make_tokenizer(chat_template=refusing), "Be brief.")
    with pytest.raises(ModelError, match="refuses the messages: System role not supported"):
        chat.prompt([("user", "x")])


def test_half_a_character_is_an_error_that_says_where(tokens):
    with pytest.raises(ModelError, match=r"lone surrogate .* at position 2"):
        tokens.encode(["fine", "ab\ud83d"])


def test_chat_needs_a_template(tokenizer):
    with pytest.raises(ModelError, match="no chat template"):
        Chat(tokenizer, None)


def test_behind_a_chat_template_blanks_stay_in_the_context(tokens):
    found = pair(tokens, "hello\n", "Paris", move_blanks=False)
    assert tokens.decode(found.context) == "hello\n"
    assert tokens.decode(found.target) == "Paris"
