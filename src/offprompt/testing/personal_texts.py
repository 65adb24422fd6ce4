"""English texts with what may not be stored in them, made by a generator: where each thing stands is known.

Everything is made up: numbers are drawn, with right check digits or on purpose with wrong ones.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Sequence
from typing import Final, Literal

from offprompt.records.redaction import Labelled, Span, SpanKind

Part = Literal["tune", "report"]
Draw = Callable[[random.Random], str]


def personal_texts(seed: int, count: int, part: Part) -> list[Labelled]:
    """So many texts, of which every third is a hard negative.

    part   the sentences of `tune` and of `report` are different ones, so that rules that were made by looking at the
           first are measured on others. Cost: O(count). Equal seeds give equal texts.
    """
    draw = random.Random(f"{part} {seed}")  # noqa: S311 - texts for tests
    with_spans, without = _SENTENCES[part], _NEGATIVES[part]
    return [_text(draw, draw.choice(without if at % 3 == 2 else with_spans)) for at in range(count)]


def _text(draw: random.Random, sentence: str) -> Labelled:
    """The sentence with each `{kind}` or `{_other}` drawn."""
    text, spans = "", list[Span]()
    for before, field, _, _ in string.Formatter().parse(sentence):
        text += before
        if not field:
            continue
        made = _DRAWN[field](draw)
        kind = _KIND.get(field)
        if kind is not None:
            spans.append(Span(len(text), len(text) + len(made), kind))
        text += made
    return Labelled(text, tuple(spans))


def _digits(draw: random.Random, count: int) -> str:
    return "".join(draw.choices("0123456789", k=count))


def _luhn(body: str) -> str:
    total = sum(sum(divmod(int(digit) * (2 - at % 2), 10)) for at, digit in enumerate(reversed(body)))
    return body + str(-total % 10)


def _grouped(number: str, sizes: Sequence[int], mark: str) -> str:
    pieces, at = list[str](), 0
    for size in sizes:
        pieces.append(number[at : at + size])
        at += size
    return mark.join(pieces)


def _other_digit(draw: random.Random, number: str, at: int = -1) -> str:
    """The number with one digit changed, so that its check digit is wrong."""
    at %= len(number)
    return number[:at] + draw.choice([digit for digit in "0123456789" if digit != number[at]]) + number[at + 1 :]


def _id_number(draw: random.Random) -> str:
    region = draw.choice(["110105", "310104", "440305", "510107", "330106", "420102", "610113"])
    born = f"{draw.randint(1950, 2006)}{draw.randint(1, 12):02}{draw.randint(1, 28):02}"
    body = f"{region}{born}{_digits(draw, 3)}"
    # GB 11643-1999: what makes the weighted sum leave 1 when divided by 11.
    left = (1 - sum(int(digit) * pow(2, 17 - at, 11) for at, digit in enumerate(body))) % 11
    return body + "0123456789X"[left]


def _card(draw: random.Random) -> str:
    if draw.random() < 0.2:
        return _grouped(_luhn("3" + draw.choice("47") + _digits(draw, 12)), (4, 6, 5), draw.choice(" -"))
    number = _luhn(
        draw.choice(["4", "51", "53", "55", "2221", "62"]).ljust(6, draw.choice("0123456789")) + _digits(draw, 9)
    )
    return draw.choice([number, _grouped(number, (4, 4, 4, 4), " "), _grouped(number, (4, 4, 4, 4), "-")])


def _iban(draw: random.Random) -> str:
    country, bank = draw.choice([("DE", _digits(draw, 18)), ("GB", draw.choice(["NWBK", "BARC"]) + _digits(draw, 14))])
    spelled = "".join(str(int(char, 36)) for char in f"{bank}{country}00")
    number = f"{country}{98 - int(spelled) % 97:02}{bank}"
    return number if draw.random() < 0.5 else _grouped(number, [4] * (len(number) // 4 + 1), " ").strip()


def _ssn(draw: random.Random) -> str:
    return f"{draw.randint(100, 665):03}-{draw.randint(1, 99):02}-{draw.randint(1, 9999):04}"


def _us_phone(draw: random.Random) -> str:
    area, rest = draw.choice(["212", "415", "617", "312", "206", "512"]), f"{draw.randint(220, 999)}{_digits(draw, 4)}"
    form = draw.choice(["({}) {}-{}", "{}-{}-{}", "{}.{}.{}", "+1 {} {} {}", "+1-{}-{}-{}", "+1{}{}{}"])
    return form.format(area, rest[:3], rest[3:])


def _gb_phone(draw: random.Random) -> str:
    mobile = "7" + draw.choice("4578") + _digits(draw, 8)
    forms = [f"0{mobile[:4]} {mobile[4:]}", f"+44 {mobile[:4]} {mobile[4:]}", f"+44{mobile}"]
    return draw.choice([*forms, f"020 7{_digits(draw, 3)} {_digits(draw, 4)}"])


def _cn_phone(draw: random.Random) -> str:
    number = draw.choice(["138", "139", "158", "186", "199"]) + _digits(draw, 8)
    return draw.choice([number, f"+86 {number}", f"+86 {number[:3]} {number[3:7]} {number[7:]}"])


def _name(draw: random.Random) -> str:
    first = draw.choice(["Ada", "Miriam", "Tom", "Grace", "Noah", "Priya", "Jose", "Ingrid", "Wei", "Fatima"])
    last = draw.choice(
        ["Okafor", "Lindqvist", "Hughes", "Marlowe", "Castillo", "Whitfield", "Tanaka", "O'Neill", "Haas"]
    )
    return f"{first} {last}"


def _email(draw: random.Random) -> str:
    user = _name(draw).lower().replace("'", "").replace(" ", draw.choice([".", "_", ""]))
    host = draw.choice(["example.com", "mail.example.org", "example.co.uk"])
    return f"{user}{draw.choice(['', '', '+news', '82'])}@{host}"


def _address(draw: random.Random) -> str:
    street = draw.choice(["Maple", "Old Mill", "Harbour", "King", "Sunset", "Cedar Ridge", "Victoria"])
    number = draw.randint(1, 9999)
    if draw.random() < 0.5:
        unit = draw.choice(["", f", Apt {draw.randint(1, 40)}", f" #{draw.randint(1, 40)}"])
        town, state = draw.choice([("Springfield", "IL"), ("San Mateo", "CA"), ("Austin", "TX"), ("Portland", "OR")])
        kind = draw.choice(["Street", "St", "Ave", "Road", "Blvd", "Lane", "Drive"])
        return f"{number} {street} {kind}{unit}, {town}, {state} {_digits(draw, 5)}"
    town, code = draw.choice([("Leeds", "LS1 4AP"), ("London", "SW1A 2AA"), ("Bath", "BA1 1SU"), ("York", "YO1 7HH")])
    return (
        f"{number % 300 + 1} {street} {draw.choice(['Road', 'Street', 'Close', 'Terrace', 'Gardens'])}, {town} {code}"
    )


def _plate(draw: random.Random) -> str:
    letters = "ABCDEFGHJKLMNOPRSTUVWXY"
    return (
        "".join(draw.choices(letters, k=2))
        + draw.choice(["05", "19", "68", "71"])
        + " "
        + "".join(draw.choices(letters, k=3))
    )


def _passport(draw: random.Random) -> str:
    return draw.choice([_digits(draw, 9), draw.choice("EGC") + _digits(draw, 8), draw.choice("EX") + _digits(draw, 8)])


def _wechat(draw: random.Random) -> str:
    return (
        draw.choice(["lin", "mei_", "wx_"]) + "".join(draw.choices("abcdef0123456789", k=6)) + draw.choice("0123456789")
    )


_DRAWN: Final[dict[str, Draw]] = {
    "id_number": _id_number,
    "bank_card": _card,
    "iban": _iban,
    "us_ssn": _ssn,
    "us_phone": _us_phone,
    "gb_phone": _gb_phone,
    "cn_phone": _cn_phone,
    "email": _email,
    "address": _address,
    "licence_plate": _plate,
    "passport": _passport,
    "wechat": _wechat,
    "qq": lambda draw: draw.choice("123456789") + _digits(draw, draw.randint(5, 9)),
    "name": _name,
    "_bad_id": lambda draw: _other_digit(draw, _id_number(draw)),
    "_bad_card": lambda draw: _other_digit(draw, _luhn("4" + _digits(draw, 14))),
    "_bad_iban": lambda draw: _other_digit(draw, _iban(draw).replace(" ", "")),
    "_bad_ssn": lambda draw: f"{draw.choice(['000', '666', '900'])}-{draw.randint(10, 99)}-{draw.randint(1000, 9999)}",
    "_order": lambda draw: f"{draw.randint(2023, 2026)}{_digits(draw, draw.randint(8, 14))}",
    "_version": lambda draw: ".".join(str(draw.randint(0, 40)) for _ in range(draw.choice([3, 4]))),
    "_ip": lambda draw: ".".join(str(draw.randint(1, 254)) for _ in range(4)),
    "_date": lambda draw: f"{draw.randint(2020, 2026)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}",
    "_time": lambda draw: str(draw.randint(1_600_000_000, 1_799_999_999)) + draw.choice(["", "123"]),
    "_isbn": lambda draw: f"978-{draw.randint(0, 9)}-{_digits(draw, 3)}-{_digits(draw, 5)}-{draw.randint(0, 9)}",
    "_hash": lambda draw: "".join(draw.choices("0123456789abcdef", k=draw.choice([7, 12, 40]))),
    "_uuid": lambda draw: "-".join("".join(draw.choices("0123456789abcdef", k=size)) for size in (8, 4, 4, 4, 12)),
    "_parcel": lambda draw: draw.choice(["1Z", "JD", "SF"]) + _digits(draw, 14),
    "_money": lambda draw: f"{draw.randint(1, 999)},{_digits(draw, 3)},{_digits(draw, 3)}.{_digits(draw, 2)}",
    "_place": lambda draw: f"{draw.uniform(-89, 89):.6f}, {draw.uniform(-179, 179):.6f}",
    "_number": lambda draw: _digits(draw, draw.randint(6, 12)),
    "_part": lambda draw: f"{draw.choice('ABCKX')}{_digits(draw, 2)}-{_digits(draw, 4)}-{_digits(draw, 3)}",
}
_KIND: Final[dict[str, SpanKind]] = {
    **dict.fromkeys(("us_phone", "gb_phone", "cn_phone"), "phone"),
    "id_number": "id_number",
    "bank_card": "bank_card",
    "iban": "iban",
    "us_ssn": "us_ssn",
    "email": "email",
    "address": "address",
    "licence_plate": "licence_plate",
    "passport": "passport",
    "wechat": "wechat",
    "qq": "qq",
    "name": "name",
}
_SENTENCES: Final[dict[Part, list[str]]] = {
    "tune": [
        "Please charge {bank_card}, it is the card I used last time.",
        "My Chinese ID is {id_number} and my phone is {cn_phone}.",
        "You can reach me at {us_phone} or write to {email}.",
        "Call the London office on {gb_phone} before five.",
        "Wire it to {iban} today, please.",
        "My SSN is {us_ssn}; I was born in Ohio.",
        "Ship it to {address}.",
        "My name is {name} and my passport number is {passport}.",
        "The car with the plate {licence_plate} stands in front of the gate.",
        'curl -d \'{{"email": "{email}", "card": "{bank_card}"}}\' https://api.example.com/pay',
        "WeChat: {wechat}, QQ: {qq}",
        "Dear Mr. {name}, we charged {bank_card} on Friday.",
    ],
    "report": [
        "{bank_card} expires next month, can you update it?",
        "ID card {id_number}, issued in Shanghai; mobile {cn_phone}",
        "text me: {us_phone}",
        "If I am out, my sister answers at {gb_phone}, her mail is <{email}>.",
        "The refund goes to IBAN {iban} (my own account).",
        "Employee record: SSN {us_ssn}, start date 2024-03-01.",
        "I have moved, the new address is {address}, since May.",
        "| customer | {email} | {us_phone} | {bank_card} |",
        "Patient: {name}, passport {passport}",
        "A van, {licence_plate}, blocked the drive all day.",
        "[write to us](mailto:{email}) or `{us_phone}`",
        "I'm called {name}. Add me on WeChat, id {wechat}, or QQ number {qq}",
        "The number on the form was {id_number}, not the old one.",
        "My weixin is {wechat}, and WeChat ID: {wechat} is my wife's.",
        "Is {name} in today? The travel document has number {passport}.",
        "Best regards,\n{name}",
    ],
}
_NEGATIVES: Final[dict[Part, list[str]]] = {
    "tune": [
        "Order {_order} has left the warehouse.",
        "Card {_bad_card} was declined: its number is wrong.",
        "The ID {_bad_id} does not pass the check.",
        "Upgrade to {_version} on {_ip} by {_date}.",
        "Commit {_hash} broke the build at {_time}.",
        "ISBN {_isbn}, second edition",
        "Transfer to {_bad_iban} failed.",
        "Ticket {_number} was closed, see {_uuid}.",
        "Total: {_money} in {_number} rows",
        "The sensor at {_place} reads 17.",
        "Parcel {_parcel} is on its way.",
    ],
    "report": [
        "invoice no. {_order}, due {_date}",
        "We got {_bad_card} from the test fixtures.",
        "checksum mismatch for {_bad_id}",
        "ping {_ip}: 12 ms; agent {_version}",
        "sha {_hash}, built {_time}, trace {_uuid}",
        "See chapter 3 of the book ({_isbn}).",
        "{_bad_iban} is no IBAN, and {_bad_ssn} no number that was ever given out",
        "Row {_number}: {_money}",
        "part {_part} fits model {_number}",
        "tracking {_parcel}, {_place}",
        "Errors rose from {_number} to {_number} between {_date} and {_date}.",
    ],
}
