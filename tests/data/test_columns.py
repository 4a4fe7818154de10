"""Which column plays which role."""

from __future__ import annotations

import pytest

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.data.table import ALIASES, ROLES, choose, parse_columns


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (["user", "item"], "user=user, item=item"),
        (
            ["userId", "movieId", "rating", "timestamp"],
            "user=userId, item=movieId, rating=rating, timestamp=timestamp",
        ),
        (
            ["reviewerID", "asin", "overall", "unixReviewTime"],
            "user=reviewerID, item=asin, rating=overall, timestamp=unixReviewTime",
        ),
        (["User-ID", "ISBN", "Book-Rating"], "user=User-ID, item=ISBN, rating=Book-Rating"),
        (
            ["user_id", "business_id", "stars", "date", "text"],
            "user=user_id, item=business_id, rating=stars, timestamp=date",
        ),
    ],
)
def test_common_names_are_found(found: list[str], said: str) -> None:
    assert str(choose(found)) == said


def test_aliases_are_disjoint_and_normalised() -> None:
    names = [name for role in ROLES for name in ALIASES[role]]
    assert len(set(names)) == len(names)
    assert all(name.isalnum() and name == name.lower() for name in names)


def test_what_is_asked_for_wins() -> None:
    choice = choose(["user", "who", "item", "score"], {"user": "who", "rating": ""}, keep=["score"])
    assert (choice.user, choice.item, choice.rating, choice.keep) == ("who", "item", None, ("score",))
    assert str(choice) == "user=who, item=item, kept score"


def test_by_position() -> None:
    choice = choose(["1", "2", "3"], by_position=True)
    assert (choice.user, choice.item, choice.rating, choice.timestamp) == ("1", "2", "3", None)


@pytest.mark.parametrize(
    ("found", "asked", "sentence"),
    [
        (
            ["user", "user_id", "item"],
            {},
            "one user column, but 'user' and 'user_id' both.*Choose with columns={'user': 'user'}\\.",
        ),
        (["user", "item", "date", "ts"], {}, "one timestamp column, but 'date' and 'ts' both"),
        (["user", "thing"], {}, "must have an item column, but none of 'user', 'thing' is known as one"),
        ([], {}, "must have a user column, but none of no column"),
        ([f"c{i}" for i in range(20)], {}, "'c11' and 8 more is known"),
        (
            ["user", "item"],
            {"user": "usr"},
            "must have a column 'usr', found 'user', 'item'. Did you mean 'user'",
        ),
        (["user", "item"], {"user": "item"}, "must have an item column"),
        (["user", "item"], {"user": "item", "item": "item"}, "each role must have its own column"),
        (["user", "item"], {"user": ""}, "must have a user column"),
    ],
)
def test_bad_columns(found: list[str], asked: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidData, match=sentence):
        choose(found, asked)


def test_parse_columns() -> None:
    assert parse_columns("user=a,item=b") == {"user": "a", "item": "b"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("user", "must be written once each as user=NAME"),
        ("user=a,user=b", "must be written once each"),
        ("usr=a", "no role 'usr'. Did you mean 'user'?"),
        ("", "must be written once each"),
    ],
)
def test_bad_option(text: str, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        parse_columns(text)
