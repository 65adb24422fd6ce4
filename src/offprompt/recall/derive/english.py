"""Facts in English clauses: which rule a clause fits, and how the sentence is put."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from offprompt.recall.derive.dates import Day
from offprompt.recall.derive.english_clauses import Clause, clauses
from offprompt.recall.derive.english_dates import english_dates
from offprompt.recall.derive.english_voice import about_them, agreeing, expanded, is_past
from offprompt.recall.derive.names import is_name
from offprompt.recall.derive.records import Derived, Quote
from offprompt.recall.derive.rules import MAX_VALUE, SHARED, Rule, rules
from offprompt.recall.derive.saying import Saying, with_dates, without_dates
from offprompt.recall.derive.sentences import BLANK, Sentence

POINTS_AWAY: Final = re.compile(
    r"\b(?:you|your|yours|you're|you've|u|ur|it|its|it's|this|these|those|them|they|they're|here|there|it'll|that's"
    r"|such|ones|he's|she's|so (?:much|many)|same|likewise)\b|\bthat(?= (?:is|was|one|too|way|kind|sort|day|time"
    r"|night"
    r"|the hard)\b|$)|\b(?:do|doing|did|of|with|about|at|in|for|like|to|from|on|into|by|through"
    r"|after|before) that\b|\bthe cause\b|^that\b|\b(?:one|ones|other)$"
    r"|\b(?:an?|the) (?:few|couple|same|other|others|rest)(?: more)?$|\ba few more\b|\beither\b(?!.*\bor\b)"
    r"|\bsome more$|\b(?:an? (?:ton|bunch|handful)|tons|loads|heaps|plenty|what|how|why|whatever|whom|whose|something"
    r"(?: new| else| similar)?)$"
    r"|\b(?:plays?|loves?|likes?|enjoys?|hates?|uses?|visited|watched|read|saw|bought|got|had|tried|made"
    r"|took) that\b",
    re.IGNORECASE,
)
_OTHERS: Final = re.compile(r"\b(?:he|she|him|his|her|hers|their|theirs)\b", re.IGNORECASE)
_NO_LONGER: Final = re.compile(
    r"(?P<be>(?:is|are) )?no longer (?P<rest>.+)"
    r"|(?:doesn't|don't|does not|do not) (?P<verb>.+?) (?:any ?more|any longer)\b",
    re.IGNORECASE,
)
_STOPPED: Final = re.compile(
    r"(?:has |have )?(?:stopped|quit|gave up|given up) (?P<v>(?:smoking|drinking|eating|playing|working|taking|going"
    r"|using|running|dancing|practicing|studying|learning|watching|buying|ordering|vaping|coffee|alcohol|sugar|meat"
    r"|dairy|gluten|caffeine|cigarettes)\b.*)",
    re.IGNORECASE,
)
_NAMED: Final = re.compile(
    r"(?:'s name is|is (?:named|called)|are (?:named|called)|names are) (?P<v>[A-Z][\w'-]+(?:(?:,? and |, "
    r"| )[A-Z][\w'-]+){0,4})$"
)
_BIRTHDAY: Final = re.compile(r"'s birthday(?:'s| is)(?: on)? (?P<v>.*\d.*)")
_MY_NAME: Final = re.compile(
    r"(?:full |first |real |new |given |legal |nick ?)?name(?:'s| is)(?: now)? (?P<v>.+)", re.IGNORECASE
)
_PLACE_AFTER: Final = re.compile(
    r"((?:lives?|resides?|based|moved|relocated|comes?|born|raised|is|grew up) (?:in|to|from) )"
    r"((?!(?:an?|the|my|our|this|that|his|her|some|fear|peace|bed|school|college|town|work|love|debt|touch|charge)\b)"
    r"[a-z]+(?: [a-z]+)?)$"
)
"""A place in text that has no capitals at all."""

_JUST: Final = re.compile(r"^((?:has|have|is|are) )?(?:actually )?(?:just|recently|finally) ", re.IGNORECASE)
_RELATIVE: Final = re.compile(r"(?<!ed) (?:that|I|we|he|she) (?=\w)")
"""Where a clause begins that says more of a thing: a date behind it is not of the whole."""

_OCCASION: Final = re.compile(
    r"(?:^|[,;] )(?:and |but |so )?(?:when(?:ever)?|while|during|before|after|if|once|at|on|in (?!my (?:free|spare)\b))"
    r"\b[^,;]{2,60},? $",
    re.IGNORECASE,
)
"""What a habit behind it is bound to: "During the holidays, we usually bake"."""

_CONDITIONAL: Final = frozenset(["if", "when", "whenever", "unless", "until"])


@dataclass(frozen=True, slots=True)
class _Told:
    """A clause on its way to a fact: predicate in the third person, its dates, and those that stand before it."""

    clause: Clause
    saying: Saying
    predicate: str
    days: list[Day]
    lead: list[Day]
    past: bool

    @property
    def all_days(self) -> list[Day]:
        """The dates of the clause itself."""
        more = _RELATIVE.search(self.predicate)
        return [*(day for day in self.days if more is None or day.start < more.start()), *self.lead]


def english_facts(sentence: Sentence, saying: Saying) -> Iterator[Derived]:
    """What one sentence states of its speaker and their people. Cost: O(n) times the number of rules."""
    for clause in clauses(sentence, saying.day):
        if clause.cut == BLANK:  # what was quoted is a part that is missing now
            continue
        occasion = _OCCASION.search(sentence.text[: clause.start - sentence.start])
        if clause.subject == "my":
            fact = _mine(clause, saying)
        else:
            if clause.name:
                yield _named(clause, saying, clause.name)
            fact = _of_predicate(clause, saying)
        if fact is not None and not (occasion and fact.attribute == "habit"):
            yield fact


def _of_predicate(clause: Clause, saying: Saying) -> Derived | None:
    itself = clause.subject in ("I", "we")
    named = None if itself else _NAMED.match(clause.rest.strip() if clause.rest[:1] == " " else clause.rest)
    if named:
        return None if clause.name else _named(clause, saying, named["v"])
    birthday = None if itself else _BIRTHDAY.match(clause.rest)
    if birthday:
        rule = Rule("birthday.of", "birthday", _BIRTHDAY, effect="replaces")
        whom = f"{saying.shown('en')}'s {clause.subject}" + (f" {clause.name}" if clause.name else "")
        fact = _fact(rule, birthday["v"], f"{whom}{clause.rest}.", clause, saying)
        return replace(fact, subject=clause.name or clause.subject)
    predicate = expanded(clause.rest)
    predicate = agreeing(predicate) if clause.subject == "I" else predicate
    if saying.turn.text.islower():
        predicate = _PLACE_AFTER.sub(lambda match: match[1] + match[2].title(), predicate)
    past = is_past(predicate)
    told = _Told(
        clause,
        saying,
        predicate,
        english_dates(predicate, saying.day, past=past),
        english_dates(clause.lead, saying.day, past=past) if clause.lead else [],
        past,
    )
    bare = without_dates(predicate, told.days)
    if POINTS_AWAY.search(bare) or (itself and _OTHERS.search(bare)):
        return None
    ended = _ended(told)
    if ended is not None:
        return _built(*ended, told)
    for rule in rules("en"):
        value = rule.value(predicate) if _fits(rule, told) else None
        if value is not None and not _is_date(value, told):  # "graduated in May"
            return _built(rule, value, told)
    return None


def _fits(rule: Rule, told: _Told) -> bool:
    """Whether a clause has the date that a rule needs, and is not cut off from the condition that it has."""
    today = told.saying.day
    if rule.needs == "past":
        return told.past and any(day.day <= today for day in told.all_days)
    if rule.needs == "future":
        ahead = any(day.is_ahead(today) for day in told.all_days)
        return ahead and not told.past and told.clause.cut not in ("if", "unless")
    if rule.needs == "present":
        return not told.past and told.clause.cut not in _CONDITIONAL
    # What holds from a day that is to come does not hold yet.
    later = rule.effect == "replaces" and not told.past and any(day.day > today for day in told.all_days)
    return told.clause.cut not in ("if", "unless") and not later


def _is_date(value: str, told: _Told) -> bool:
    """Whether a value is nothing but a date."""
    days = english_dates(f"in {value}", told.saying.day, past=told.past)
    return bool(days) and not without_dates(f"in {value}", days).strip()


def _ended(told: _Told) -> tuple[Rule, str] | None:
    """The rule whose fact a predicate ends, and its value."""
    match = _NO_LONGER.match(told.predicate)
    if match is None:
        stopped = _STOPPED.match(told.predicate)
        return (
            None if stopped is None else (Rule("ended", "habit", _STOPPED, effect="ends", positive=False), stopped["v"])
        )
    rest: str = match["rest"] or match["verb"]
    whole = f"is {rest}" if match["be"] else rest
    if match["verb"] and told.clause.subject != "we":
        whole = agreeing(rest)
    for rule in rules("en"):
        value = None if rule.needs else rule.value(whole)
        if value is not None:
            return replace(rule, name="ended", effect="ends", positive=False), value
    return Rule("ended", "habit", _NO_LONGER, effect="ends", positive=False), rest[:MAX_VALUE]


def _mine(clause: Clause, saying: Saying) -> Derived | None:
    """What a clause that begins with "my" states."""
    rest = clause.rest.lstrip()
    name = _MY_NAME.match(rest)
    if name:
        value = re.sub(r"[,.]? (?:but|and|by|from|here)\b.*", "", name["v"]).strip(" ,.!")
        if not is_name(value, alone=True):
            return None
        rule = Rule("name", "name", _MY_NAME, slot="user_name", effect="replaces")
        return _fact(rule, value, f"{saying.shown('en')}'s name is {value}.", clause, saying)
    # A birthday is a day of every year: it stays as said.
    days = [] if rest.startswith(("birthday", "date of birth", "dob")) else english_dates(rest, saying.day, past=False)
    bare = without_dates(rest, days)
    told = _Told(clause, saying, rest, days, [], past=False)
    if POINTS_AWAY.search(bare) or _OTHERS.search(bare):
        return None
    for rule in rules("en", "mine"):
        value = rule.value(rest) if _fits(rule, told) else None
        if value is None:
            continue
        match = rule.pattern.match(rest)
        if rule.attribute == "favourite" and match is not None:
            rule = replace(rule, attribute=f"favourite {match['a'].lower()}")  # noqa: PLW2901
        text = f"{saying.shown('en')}'s {about_them(with_dates(rest, days, 'en'))}."
        return _dated(_fact(rule, value, text, clause, saying), days if rule.needs else [], saying)
    return None


def _built(rule: Rule, value: str, told: _Told) -> Derived:
    clause, saying = told.clause, told.saying
    owner = saying.shown("en")
    itself = clause.subject in ("I", "we")
    if itself:
        shown = owner + (" and others" if clause.subject == "we" else "")
    else:
        shown = f"{owner}'s {clause.subject}" + (f" {clause.name}" if clause.name else "")
    predicate, days = told.predicate, told.days
    if rule.needs != "present":  # "just" is said of the day on which it is said
        predicate = _JUST.sub(lambda match: match[1] or "", predicate)
        days = [day.moved(len(predicate) - len(told.predicate)) for day in days]
    said = about_them(with_dates(predicate, days, "en"))
    if told.lead and not days:
        first = told.lead[0]
        said += " " + with_dates(clause.lead[first.start : first.end], [first.moved(-first.start)], "en")
    slot = rule.slot if clause.subject == "I" or (itself and rule.slot in SHARED) else ""
    value = with_dates(value, english_dates(value, saying.day, past=told.past), "en") if told.days else value
    fact = _fact(replace(rule, slot=slot), value, f"{shown} {said.strip()}.", clause, saying)
    if not itself:
        fact = replace(fact, subject=clause.name or clause.subject)
    return _dated(fact, told.all_days, saying)


def _dated(fact: Derived, days: list[Day], saying: Saying) -> Derived:
    return replace(fact, event_at=days[0].at(saying.zone), precision=days[0].precision) if days else fact


def _named(clause: Clause, saying: Saying, name: str) -> Derived:
    """That somebody's wife, son or dog has this name."""
    head = clause.subject.split()[-1]
    verb = "are" if " and " in name else "is"
    rule = Rule("named", head, _NAMED)
    return _fact(rule, name, f"{saying.shown('en')}'s {clause.subject} {verb} named {name}.", clause, saying)


def _fact(rule: Rule, value: str, text: str, clause: Clause, saying: Saying) -> Derived:
    return Derived(
        kind="slot" if rule.slot else "fact",
        rule=f"en.{rule.name}",
        subject=saying.me,
        attribute=rule.attribute,
        value=" ".join(about_them(value).split()),
        text=" ".join(text.split()),
        quotes=(Quote(saying.turn.turn_id, clause.start, clause.end),),
        slot=rule.slot,
        policy="card" if rule.slot in ("diet", "allergies") else None,
        positive=rule.positive,
        effect=rule.effect,
    )
