"""A made-up log of a tool-using support agent, for tests and demonstrations: the same seed gives the same bytes."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Sequence
from typing import Any, Final, Literal

from offprompt.records import Message, compact

_GOODS: Final = {
    "en": ("desk lamp", "rain jacket", "espresso mill", "bicycle bell", "travel adapter", "wool blanket", "notebook"),
    "zh": ("台灯", "雨衣", "磨豆机", "车铃", "旅行插头", "羊毛毯", "笔记本"),
}
OLDER: Final = 5
"""How many tasks ago the ticket was opened that a later task closes."""

_STATES: Final = ("packed", "on its way", "delivered", "returned", "waiting for stock")
_SYSTEM: Final = {
    "en": "You are the support agent of a small shop. Use the tools; never invent order numbers.",
    "zh": "你是一家小店的客服。请使用工具，不要编造订单号。",
}
_ASKS: Final = {
    "en": "Customer {customer}: what became of my {goods}? Please send it to the new address if it has not left.",
    "zh": "客户 {customer}：我的{goods}怎么样了？如果还没发货，请寄到新地址。",
}
_CLOSES: Final = {
    "en": " And close the ticket of customer {customer}, whose parcel has arrived.",
    "zh": "另外请关闭客户 {customer} 的工单，包裹已经收到。",
}
_ANSWERS: Final = {
    "en": "The {goods} of order {order} is {state}; ticket {ticket} holds the change of address.",
    "zh": "订单 {order} 的{goods}状态为 {state}；改地址的工单是 {ticket}。",
}


def agent_log(*, tasks: int = 20, seed: int = 7, language: Literal["en", "zh"] = "en") -> list[Message]:
    """One conversation in OpenAI chat form: system, then for each task a question, three or four calls and an answer.

    Results hold ids that later calls need, some of them five tasks later, among much that nobody needs.
    """
    dice = random.Random(seed)  # noqa: S311 - made-up data, no secret
    log: list[Message] = [{"role": "system", "content": _SYSTEM[language]}]
    tickets: list[tuple[str, str]] = []
    for number in range(1, tasks + 1):
        log += _task(dice, number, tickets, language)
    return log


def _task(
    dice: random.Random, number: int, tickets: list[tuple[str, str]], language: Literal["en", "zh"]
) -> list[Message]:
    customer = f"CU-{dice.randrange(100000, 999999)}"
    orders = [_order(dice, language) for _ in range(dice.randrange(6, 30))]
    chosen = dice.choice(orders)
    ticket = f"TK-{dice.randrange(1000000, 9999999)}"
    order, parcel = chosen["order_id"], chosen["parcel_id"]
    steps: list[tuple[str, dict[str, Any], Any]] = [
        ("list_orders", {"customer_id": customer}, {"customer_id": customer, "orders": orders}),
        ("track_parcel", {"order_id": order, "parcel_id": parcel}, {"parcel_id": parcel, "scans": _scans(dice)}),
        ("open_ticket", {"order_id": order, "reason": "address"}, {"ticket_id": ticket, "order_id": order}),
    ]
    goods, state = chosen["goods"], chosen["state"]
    asked = _ASKS[language].format(customer=customer, goods=goods)
    if number % 3 == 0 and number > OLDER:
        other, old = tickets[number - OLDER - 1]
        asked += _CLOSES[language].format(customer=other)
        steps.append(("close_ticket", {"ticket_id": old}, {"ticket_id": old, "closed": True}))
    tickets.append((customer, ticket))
    messages: list[Message] = [{"role": "user", "content": asked}]
    for step, (tool, arguments, result) in enumerate(steps, 1):
        call_id = f"call_{number}_{step}"
        function = {"name": tool, "arguments": compact(arguments)}
        call = {"id": call_id, "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": compact(result)},
        ]
    answer = _ANSWERS[language].format(goods=goods, order=order, state=state, ticket=ticket)
    return [*messages, {"role": "assistant", "content": answer}]


def _order(dice: random.Random, language: Literal["en", "zh"]) -> dict[str, Any]:
    return {
        "order_id": f"OR-{dice.randrange(10000000, 99999999)}",
        "parcel_id": f"PX{dice.randrange(10**11, 10**12)}",
        "goods": dice.choice(_GOODS[language]),
        "state": dice.choice(_STATES),
        "price_cents": dice.randrange(500, 30000),
        "street": f"{dice.randrange(1, 300)} Harbour Row",
    }


def _scans(dice: random.Random) -> list[dict[str, Any]]:
    return [
        {"hub": f"hub-{dice.randrange(10, 99)}", "at": f"2026-03-{day:02d}T{dice.randrange(24):02d}:15:00Z"}
        for day in range(1, dice.randrange(8, 20))
    ]


def main(words: Sequence[str]) -> int:
    """Write a log to stdout: `python -m offprompt.testing.agent_log [TASKS [SEED [en|zh]]]`; returns the exit code."""
    given = [*words, *("20", "7", "en")[len(words) :]]
    if len(given) > 3 or not (given[0].isdecimal() and given[1].isdecimal() and given[2] in _SYSTEM):
        _complain(f"{' '.join(words)!r}: give the number of tasks, a seed, and en or zh, such as: 20 7 zh")
        return 2
    try:
        log = agent_log(tasks=int(given[0]), seed=int(given[1]), language="zh" if given[2] == "zh" else "en")
        # UTF-8 whatever the terminal's encoding is: what reads it is a program.
        with open(1, "w", encoding="utf-8", closefd=False) as out:
            out.write(compact({"messages": log}) + "\n")
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141
    except OSError as exc:
        _complain(f"the log cannot be written to stdout: {exc.strerror}")
        return 5
    return 0


def _complain(text: str) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"agent_log: {text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
