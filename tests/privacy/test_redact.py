"""What may not be stored is taken out, in any setting of its digits; what only looks like it stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offprompt.privacy.numbers import card_ok, id_number_ok
from offprompt.privacy.redact import MARKS, CheckedRedactor

ID = "110105194912310025"  # made up; its check digit is right
ID_X = "11010519491231002X"  # the example of the standard
CARD = "6212345678900000003"
VISA = "4111111111111111"
AMEX = "378282246310005"
FULL_WIDTH = str.maketrans("0123456789X-", "０１２３４５６７８９Ｘ－")

KEYS = {
    "api_key": [
        "sk-proj-abcdefghijklmnop1234",
        "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUv",
        "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
        "AKIAIOSFODNN7EXAMPLE",
        "AIza" + "Sy" + "A1b2C3d4E" * 3 + "F5g6H7",
        "LTAI5tAbCdEfGh1234567890",
    ],
    "access_token": [
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "xoxb-123456789012-abcdefABCDEF",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
        "123456789:AA" + "b1C2d3E4f5G" * 3,
    ],
    "private_key": [
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow+/=\nabcd\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQ" * 3,
    ],
}


def kinds(text: str) -> list[str]:
    return [span.kind for span in CheckedRedactor().redact(text).found]


def test_check_digits() -> None:
    assert id_number_ok(ID_X)
    assert id_number_ok(ID_X.lower())
    assert [id_number_ok(ID[:-1] + digit) for digit in "0123456789X"].count(True) == 1
    assert not id_number_ok("110105194902310026")  # no such day
    assert not id_number_ok("9" + ID[1:])  # no such region
    assert card_ok(VISA)
    assert card_ok(AMEX)
    assert card_ok(CARD)
    assert not card_ok("9111111111111111")
    assert not card_ok("4111111111111112")


@pytest.mark.parametrize("spelled", ["{}", "ID{}", "身份证{}，谢谢", "{}, thanks"])
def test_an_identity_number_in_a_sentence(spelled: str) -> None:
    for number in (ID_X, f"{ID_X[:6]} {ID_X[6:14]} {ID_X[14:]}", " ".join(ID_X), "-".join((ID_X[:6], ID_X[6:]))):
        assert kinds(spelled.format(number)) == ["id_number"], number
        assert kinds(spelled.format(number.translate(FULL_WIDTH))) == ["id_number"], number


@pytest.mark.parametrize("number", [CARD, VISA, AMEX])
def test_a_card_however_its_digits_are_set(number: str) -> None:
    fours = " ".join(number[at : at + 4] for at in range(0, len(number), 4))
    for set_so in (
        number,
        fours,
        fours.replace(" ", "-"),
        fours.replace(" ", "　"),
        " ".join(number),
        "\u200b".join(number),
    ):
        assert kinds(f"card: {set_so}, thanks") == ["bank_card"], set_so
        assert kinds(f"卡号{set_so.translate(FULL_WIDTH)}。") == ["bank_card"], set_so
    assert kinds("3782 822463 10005") == ["bank_card"]


def test_two_numbers_beside_each_other_are_two() -> None:
    assert kinds(f"{ID_X} {VISA}") == ["id_number", "bank_card"]
    assert kinds(f"{VISA} {ID_X}") == ["bank_card", "id_number"]
    assert kinds(f"{VISA} 138 1234 5678") == ["bank_card"]


@pytest.mark.parametrize(
    "text",
    [
        "订单号511802198412089601已发货",  # built like an identity number, wrong check digit
        "order 620102198412089602",
        "快递单号 SF5266512751737",
        "tracking no. 9400111899223100001234",
        "+86 138 1234 5678",
        "call 4111 1111 1111 1112",
        f"1{VISA}",
        f"{VISA}0",
        f"hash ab{VISA}",
        "4 11 111 1111 1111 11",
        "1700000000000 1700000000001",
        "the -----BEGIN PUBLIC KEY----- header",
        "sk-learn-pipelines-made-easy",
        "pk_user_account_id_2",
        "a task-force-of-sixteen-people",
        "",
    ],
)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert CheckedRedactor().redact(text).text == text


@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind, keys in KEYS.items() for key in keys])
def test_keys_of_every_form(kind: str, key: str) -> None:
    for text in (key, f"the key is {key} ok", f"密钥：{key}。", f'{{"key": "{key}"}}'):
        redacted = CheckedRedactor().redact(text)
        assert [span.kind for span in redacted.found] == [kind]
        assert key not in redacted.text
        assert text[redacted.found[0].start : redacted.found[0].end].strip('"') in key


def test_the_mark_speaks_the_language_of_the_text() -> None:
    redact = CheckedRedactor().redact
    assert redact(f"My ID is {ID_X}, ok?").text == "My ID is [ID number given], ok?"
    assert redact(f"我的身份证号是{ID_X}。").text == "我的身份证号是[已提供身份证号]。"
    assert redact(f"我的 API key 是 {KEYS['api_key'][0]}").text == "我的 API key 是 [已提供接口密钥]"
    assert redact(f"My card (银行卡) is {VISA}").text == "My card (银行卡) is [card number given]"


def test_spans_are_places_in_the_text_as_it_was() -> None:
    text = f"a {ID_X} b {VISA} c"
    redacted = CheckedRedactor().redact(text)
    assert [text[span.start : span.end] for span in redacted.found] == [ID_X, VISA]
    assert ID_X not in repr(redacted)


PIECES = st.sampled_from(
    [
        ID_X,
        CARD,
        VISA,
        *KEYS["api_key"],
        *KEYS["private_key"],
        "-----BEGIN ",
        "1 ",
        "62",
        " ",
        "-",
        "字",
        "x",
        "sk-",
        f"{ID_X[:6]}-{ID_X[6:]}",
        f"{VISA[:4]} {VISA[4:]}",
    ]
)


@given(st.lists(PIECES | st.text(max_size=8), max_size=12).map("\n".join))
def test_any_text_is_redacted_once_and_for_all(text: str) -> None:
    redacted = CheckedRedactor().redact(text)
    again = CheckedRedactor().redact(redacted.text)
    assert again.text == redacted.text
    after = 0
    for span in redacted.found:
        assert after <= span.start < span.end <= len(text)
        after = span.end


@pytest.mark.parametrize(
    "unit",
    [
        "1 ",
        "1",
        "4111 ",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN ",
        "sk-a",
        "eyJaaaaaaaa.",
        "a-",
        "\\n",
        "AA",
        "６２ ",
    ],
)
def test_hostile_repetition_ends(unit: str) -> None:
    CheckedRedactor().redact(unit * (400_000 // len(unit)))


def test_there_is_a_mark_in_both_languages_for_each_kind() -> None:
    assert all(len(marks) == 2 and all(marks) for marks in MARKS.values())
    assert all(not CheckedRedactor().redact(mark).found for marks in MARKS.values() for mark in marks)


@pytest.mark.data
def test_the_made_texts_of_the_data_set(data: Path) -> None:
    wanted = {"CN_ID": "id_number", "BANK_CARD": "bank_card"}
    lines = (data / "pii-zh" / "dev.jsonl").read_text(encoding="utf-8").splitlines()
    for row in map(json.loads, lines):
        spans = {(s["start"], s["end"], wanted[s["type"]]) for s in row["spans"] if s["type"] in wanted}
        found = {(s.start, s.end, s.kind) for s in CheckedRedactor().redact(row["text"]).found}
        assert found == spans, row["text"]
