"""Facts in Chinese clauses: who, which rule the rest fits, and how the sentence is put."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from offprompt.recall.derive.chinese_dates import chinese_dates
from offprompt.recall.derive.dates import Day, said_for_good
from offprompt.recall.derive.names import is_name
from offprompt.recall.derive.records import Derived, Quote
from offprompt.recall.derive.rules import SHARED, Rule, rules, word
from offprompt.recall.derive.saying import Saying
from offprompt.recall.derive.sentences import BLANK, Sentence

_PIECE: Final = re.compile(r"[^，,？?：:—()（）~～\u2026](?:(?!(?<=[A-Za-z] )我)[^，,？?：:—()（）~～\u2026])*")
_OPENERS: Final = re.compile(
    r"\s*(?:(?:嗯+|哦+|噢|啊+|呀|哎呀?|唉|嗨|嘿+|哈+|对了|对啊|对呀|对|是的|是啊|是呀|好的|好啊|好呀|好|你好|您好|大家好|其实|另外"
    r"|而且|不过|但是|但|可是|因为|由于|所以|还有|然后|话说|顺便说一下|顺便|当然|说实话|老实说|说真的|就是|虽然|并且|同时|那|那么|毕竟"
    r"|原来|没错|谢谢|真的|hi|hello|ok|okay|btw)(?:[！!，,、\s]+|(?=[我俺咱本你请以从])))*\s*",
    re.IGNORECASE,
)
_ASKS: Final = re.compile(
    r"吗|什么|怎么|怎样|咋|哪|谁|为何|多少|几(?=[点岁号月个次]|$)|是不是|有没有|能不能|要不要|可不可以|好不好|对不对|行不行|会不会"
    r"|该不该|想不想|可以.{0,6}呀?$(?<=[吗么])"
)
_DOUBT: Final = re.compile(
    r"如果|要是|假如|假设|倘若|万一|假装|比如|例如|听说|据说|的话|歌词|台词|翻译|小说里|故事里|电影里|梦里|梦见|梦到"
)
_CONDITION: Final = re.compile(r"\s*(?:如果|要是|假如|倘若|万一|除非|只要)")
_WHEN: Final = re.compile(r"(?:时候?|期间|之?[前后]|的话)\s*$")
_UNSURE: Final = re.compile(r"可能|也许|大概|说不定|好像|似乎|应该|估计|差点|才怪|仿佛|就好了|多好|不知道|是否")
_TELLS: Final = re.compile(r"(?:说|问|告诉.{1,3}|写道|认为|以为|觉得|喊|讲)$")
_PARTICLES: Final = re.compile(r"[啊呀哦啦呢哈嘛喔哟哇呐噢耶吖哒~！!。.\s]+$")
AWAY: Final = re.compile(r"你|您|咱|(?<![其吉])[他]|她|(?<!其)它|这(?!样)|那(?!么)|此|刚才|上面|下面|\u2588")
_NO_LONGER: Final = re.compile(
    r"(?:现在|已经|再也|早就|以后|早已)*(?:不再|不(?=.+了$))(?P<rest>.+?)(?:了)?$|戒(?:了|掉了?)?(?P<v>.{1,6}?)(?:了)?$"
)
_ENDING: Final = re.compile(
    r"(?:不再|再也不|已经不|早就不|现在不)|不(?:住|喜欢|爱|在|吃|喝|抽|做|学|养|玩|用).*了$|戒(?:了|掉|烟|酒|糖|咖啡|奶茶|网|游戏|赌)"
)
_DOING: Final = re.compile(r"[吃喝玩看听读做踢打画唱跳逛去跑爬游骑养收旅]")
_REPEATED: Final = re.compile(r"总|经常|常常|每|通常|一般|周末都|平时")
_NAMED: Final = re.compile(
    r"(?:的)?(?:名字)?(?:(?:英文名|中文名|小名|全名|昵称)(?:叫|是)|叫做?|名叫|名字叫|名字是|的名字是)(?P<v>.+)"
)


_AGE_ALONE: Final = re.compile(
    r"(?:我|本人)?(?:今年)(?:刚|刚满|满|已经|才)?(?P<v>[1-9]\d|[二三四五六七八九]?十[一二三四五六七八九]?)(?=了?$)"
)


@dataclass(frozen=True, slots=True)
class _Told:
    """A clause on its way to a fact. who: `我`, `我们`, or a relation; predicate: without its dates.

    bound    it holds under what stands beside it: a condition behind it, "when …" before it.
    """

    who: str
    name: str
    predicate: str
    days: list[Day]
    prefix: str
    start: int
    end: int
    inherited: bool = False
    bound: bool = False


@cache
def _subject() -> re.Pattern[str]:
    people = "|".join(word("zh", name) for name in ("OTHERS", "FAMILY", "PETS"))
    return re.compile(
        rf"(?:我们?家?|俺|本人)?(?<=[我们家俺人])(?:的)?(?:[大小]|最好的|好|一个|一位|新|远房|亲)?(?P<relation>{people})(?!里|长|园|节|们?家)(?:们)?"
        r"(?P<name>(?:[小阿老][\u4e00-\u9fff]|[A-Z][a-z]{1,15}|[李王张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗][\u4e00-\u9fff]{1,2})"
        r"(?=最?很?特?别?也?不?喜欢|讨厌|最?爱|不|住|在|是|对|有|很|也|最|会|今年|昨天|送|刚))?"
        rf"|(?P<pair>我(?:和|跟)(?:我?的?)(?:{people})(?:们)?(?:都|一起|现在)?)(?=住|搬|养|有|在|打算|计划|去年|明年|下|要)"
        r"|(?P<self>我(?![们俩])|俺|本人)|(?P<home>我们?家)(?!人|长|里人)|(?P<we>我们(?![班校队组]|学校|公司|[^去在要会]{1,3}[队班组社]))"
    )


@cache
def _others_before_self() -> re.Pattern[str]:
    """Somebody else before 「我」: 「自己」 behind them would be them."""
    people = "|".join(word("zh", name) for name in ("OTHERS", "FAMILY"))
    return re.compile(rf"(?<![和跟与])(?:{people}|别人|人家|大家|他们)[^我]{{1,20}}我")


def chinese_facts(sentence: Sentence, saying: Saying) -> Iterator[Derived]:
    """What one sentence states of its speaker and their people. Cost: O(n) times the number of rules."""
    for told in _clauses(sentence, saying):
        if told.name and not told.inherited:
            text = f"{saying.shown('zh')}的{told.who}叫{told.name}。"
            yield _fact(Rule("named", told.who, _NAMED), told.name, text, told, saying)
        fact = _fact_of(told, saying)
        if fact is not None:
            yield fact


def _clauses(sentence: Sentence, saying: Saying) -> Iterator[_Told]:
    """The clauses of a sentence that state, each with its subject."""
    before: tuple[str, str] | None = None
    lead = ""
    told_by_others = False
    pieces = list(_PIECE.finditer(sentence.text))
    for at, piece in enumerate(pieces):
        text = piece[0]
        if _DOUBT.search(text):
            return
        last = at == len(pieces) - 1
        opener = _OPENERS.match(text)
        begin = opener.end() if opener else 0
        body = text[begin:]
        if _TELLS.search(body.rstrip()):
            told_by_others = True
            continue
        if (sentence.asks and last) or _ASKS.search(body) or _UNSURE.search(body) or told_by_others:
            before = None
            continue
        dates = chinese_dates(body, saying.day, past=True)
        if dates and dates[0].start == 0 and not body[dates[0].end :].strip("的 "):
            lead = body[: dates[0].end]  # a date alone: it belongs to the clause that follows
            continue
        told = _told(body, lead, sentence.start + piece.start() + begin, before, saying)
        lead = ""
        if told is None:
            before = None
            continue
        before = (told.who, told.name)
        condition = at == len(pieces) - 2 and _CONDITION.match(pieces[-1][0])
        bound = condition or (at and _WHEN.search(pieces[at - 1][0]))
        yield replace(told, bound=bool(bound))


def _told(body: str, lead: str, start: int, before: tuple[str, str] | None, saying: Saying) -> _Told | None:
    """A clause taken apart: a date before the subject, the subject, the predicate without its dates."""
    days = chinese_dates(body, saying.day, past=_is_past(body))
    if _REPEATED.search(body):  # 「周末总是」 is no weekend of its own
        days = [day for day in days if body[day.start] not in "周星礼"]
    at = days[0].end if days and not body[: days[0].start].strip() else 0
    at += len(body[at:]) - len(body[at:].lstrip("的, "))
    match = _subject().match(body, at)
    if match is None:
        if before is None:
            return None
        who, name, rest = before[0], before[1], at
    else:
        who = match["relation"] or ("我们" if match["we"] or match["pair"] else "我家" if match["home"] else "我")
        name, rest = match["name"] or "", match.end()
    kept = _PARTICLES.sub("", body)
    if "生日" in kept or "出生" in kept:  # a day of every year, or long past: it stays as said
        days = []
    predicate, prefix = _undated(_AGE_ALONE.sub(r"\g<0>岁", kept), rest, days)
    if lead and not days:
        days = chinese_dates(lead, saying.day, past=_is_past(body))
        prefix = said_for_good(days[0], "zh") if days else ""
    return _Told(who, name, predicate, days, prefix, start, start + len(kept), match is None)


def _undated(body: str, rest: int, days: list[Day]) -> tuple[str, str]:
    """The predicate with later dates said for good in it, and the first date, which goes before the sentence."""
    predicate, after, prefix = "", rest, ""
    for day in days:
        if day.end > len(body):
            break
        label = said_for_good(day, "zh")
        if day.end <= rest or not (predicate + body[after : day.start]).strip():
            prefix = label
        else:
            predicate += body[after : day.start] + label
        after = max(after, day.end)
    return (predicate + body[after:]).strip(), prefix


def _is_past(body: str) -> bool:
    return re.search(r"了|过(?!敏)|昨|前天|去年|上(?:周|个?月|星期)|刚", body) is not None


def _fact_of(told: _Told, saying: Saying) -> Derived | None:
    predicate = told.predicate
    itself = told.who in ("我", "我们", "我家")
    if told.who == "我" and not told.inherited:
        named = _NAMED.match(predicate)
        value = named["v"].removesuffix("吧").strip() if named else ""
        if named and is_name(value, alone=True):
            rule = Rule("name", "name", _NAMED, slot="user_name", effect="replaces")
            return _fact(rule, value, f"{saying.shown('zh')}的名字叫{value}。", told, saying)
    elif not itself:
        named = _NAMED.match(predicate)
        if named and is_name(named["v"].strip(), alone=True):
            value = named["v"].strip()
            return _fact(
                Rule("named", told.who, _NAMED), value, f"{saying.shown('zh')}的{told.who}叫{value}。", told, saying
            )
    if len(predicate) < 2 or AWAY.search(predicate) or predicate.endswith("吧"):
        return None
    if _ENDING.search(predicate):
        return _ended(told, saying)
    for rule in rules("zh"):
        if told.inherited and not rule.inherits:
            continue
        value = rule.value(predicate) if _fits(rule, told, saying) else None
        if value is not None:
            if rule.attribute == "likes":
                if value.endswith("的") and not _DOING.match(value):  # 「喜欢彩色的」: a thing that is not named
                    continue
                value, told = value.rstrip("的了"), replace(told, predicate=told.predicate.rstrip("的了"))
            return _built(rule, value, told, saying)
    return None


def _fits(rule: Rule, told: _Told, saying: Saying) -> bool:
    if told.bound and rule.attribute in ("plan", "habit"):
        return False
    if rule.needs == "past":
        return bool(told.days) and any(day.day <= saying.day for day in told.days)
    if rule.needs == "future":
        return any(day.day >= saying.day and day.is_ahead(saying.day) for day in told.days)
    # What holds from a day that is to come does not hold yet.
    return rule.effect != "replaces" or not any(day.day > saying.day for day in told.days)


def _ended(told: _Told, saying: Saying) -> Derived | None:
    """What a predicate says to hold no more."""
    match = _NO_LONGER.search(told.predicate)
    if match is None or told.inherited:
        return None
    rest: str = match["rest"] or match["v"]
    for rule in rules("zh"):
        value = None if rule.needs else rule.value(rest)
        if value is not None:
            return _built(replace(rule, name="ended", effect="ends", positive=False), value, told, saying)
    return _built(Rule("ended", "habit", _NO_LONGER, effect="ends", positive=False), rest, told, saying)


def _built(rule: Rule, value: str, told: _Told, saying: Saying) -> Derived:
    owner = saying.shown("zh")
    itself = told.who in ("我", "我们", "我家")
    shown = {"我": owner, "我们": f"{owner}和同伴", "我家": f"{owner}家"}.get(
        told.who, f"{owner}的{told.who}{told.name}"
    )
    whom = owner if _others_before_self().search(told.predicate) else "自己"
    said = about_self(told.predicate, whom if itself else owner)
    if rule.attribute == "favourite":
        match = rule.pattern.match(told.predicate)
        rule = replace(rule, attribute=f"favourite {match['a']}" if match else "favourite")
    prefix = f"{told.prefix}，" if told.prefix and told.days else ""
    slot = rule.slot if told.who == "我" or (itself and rule.slot in SHARED) else ""
    fact = _fact(replace(rule, slot=slot), about_self(value, whom), f"{prefix}{shown}{said}。", told, saying)
    if not itself:
        fact = replace(fact, subject=told.name or told.who)
    if told.days:
        fact = replace(fact, event_at=told.days[0].at(saying.zone), precision=told.days[0].precision)
    return fact


def about_self(text: str, whom: str = "自己") -> str:
    """「我的」 as one's own, in what stands behind the subject."""
    return re.sub(
        r"我们(?=[班校家学组队])|我们的?|我", lambda match: f"{whom}的" if match[0] == "我们的" else whom, text
    )


def _fact(rule: Rule, value: str, text: str, told: _Told, saying: Saying) -> Derived:
    return Derived(
        kind="slot" if rule.slot else "fact",
        rule=f"zh.{rule.name}",
        subject=saying.me,
        attribute=rule.attribute,
        value=value.replace(BLANK, ""),
        text=text,
        quotes=(Quote(saying.turn.turn_id, told.start, told.end),),
        slot=rule.slot,
        policy="card" if rule.slot in ("diet", "allergies") else None,
        positive=rule.positive,
        effect=rule.effect,
    )
