"""What can be somebody's name."""

from __future__ import annotations

import re
from typing import Final

_LATIN: Final = re.compile(r"[A-Z][\w'’.-]{0,24}(?: (?:[A-Z][\w'’.-]{0,24}|de|van|von|da|bin|al)){0,3}")
_LOWER: Final = re.compile(r"[a-z][a-z'-]{1,19}(?: [a-z]{2,20})?")
_NO_NAME: Final = frozenset(
    [
        *("a", "an", "the", "not", "no", "on", "in", "at", "by", "for", "so", "too", "very", "back", "later", "maybe"),
        *(
            "crazy",
            "old",
            "old-fashioned",
            "tomorrow",
            "today",
            "tonight",
            "when",
            "if",
            "what",
            "whatever",
            "anything",
        ),
        *(
            "something",
            "it",
            "that",
            "this",
            "here",
            "there",
            "again",
            "now",
            "please",
            "soon",
            "out",
            "names",
            "stupid",
        ),
        *("silly", "weird", "lazy", "biased", "naive", "important", "my", "your", "his", "her", "our", "their", "well"),
        *("just", "really", "quite", "hard", "easy", "common", "unique", "spelled", "pronounced", "and", "or", "but"),
        *("i", "me", "you", "he", "she", "they", "we", "up", "down", "over", "an ambulance", "monday", "tuesday"),
        *("wednesday", "thursday", "friday", "saturday", "sunday", "january", "february", "march", "april", "june"),
        *(
            "july",
            "august",
            "september",
            "october",
            "november",
            "december",
            "american",
            "british",
            "english",
            "chinese",
        ),
        *(
            "canadian",
            "german",
            "french",
            "italian",
            "spanish",
            "indian",
            "japanese",
            "korean",
            "australian",
            "russian",
        ),
        *(
            "mexican",
            "christian",
            "muslim",
            "jewish",
            "catholic",
            "happy",
            "sorry",
            "good",
            "fine",
            "okay",
            "ok",
            "sure",
        ),
        *(
            "glad",
            "new",
            "back",
            "ready",
            "excited",
            "tired",
            "done",
            "looking",
            "trying",
            "going",
            "interested",
            "dr",
            "mr",
            "mrs",
            "ms",
            "prof",
        ),
    ]
)
_SURNAME: Final = (
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何林高罗郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘于蒋蔡余杜叶程苏魏吕丁任沈姚卢姜崔钟谭陆汪范金石廖"
    "贾夏韦付方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚邵万钱严覃武戴莫孔向汤温康施文牛樊葛邢安齐易乔伍庞颜倪庄聂章鲁岳翟"
    "殷詹申欧耿关兰焦俞左柳甘祝包宁尚符舒阮柯纪梅童凌毕单季裴霍涂成苗谷盛曲翁冉骆蓝路游辛靳欧管柴蒙鲍华喻祁蒲房滕屈饶解牟艾尤"
)
_COMPOUND: Final = "欧阳|司马|上官|诸葛|夏侯|东方|皇甫|尉迟|公孙|慕容|令狐|司徒|端木"
_HAN_NAME: Final = re.compile(
    rf"(?:{_COMPOUND})[\u4e00-\u9fff]{{1,2}}|[{_SURNAME}][\u4e00-\u9fff]{{1,2}}|[小阿老大][\u4e00-\u9fff]{{1,2}}"
    r"|(?P<twice>[\u4e00-\u9fff])(?P=twice)|[\u4e00-\u9fff]{1,3}(?:哥|姐|总|老师|同学|医生|叔|姨|爷|宝|儿|子)|[\u4e00-\u9fff]{2,4}"
)
_HAN_NO_NAME: Final = re.compile(
    r"[他她它你您我们了过着不去来起吃喝睡做写看说别没有去到在是的这那什怎哪谁啥几多]|外卖|醒|快递|出租|车|救护|滴滴|保安|警察|停|住手"
    r"|家长|妈妈|爸爸|一声|一下|起床|回家|帮忙|上课|名字|早点|小心|好好|大家|自己|注意|放心|闭嘴|加油|打车|代驾|服务员"
)


def is_name(text: str, *, alone: bool = False) -> bool:
    """Whether a text can be a name: capitalised Latin words, or two to four Han characters that are no common words.

    alone    the words around it say already that a name follows ("my name is …"), so lower case is one too.
    """
    bare = text.strip()
    first = bare.split()[0].casefold().rstrip(".,!") if bare.split() else ""
    if first in ("dr", "mr", "mrs", "ms", "prof") and " " in bare:
        return is_name(bare.partition(" ")[2], alone=alone)
    if not bare or first in _NO_NAME or bare.casefold() in _NO_NAME:
        return False
    if _LATIN.fullmatch(bare):
        return True
    if alone and _LOWER.fullmatch(bare):
        return len(bare.split()) == 1 or bare.split()[1] not in _NO_NAME
    return is_han_name(bare)


def is_han_name(text: str) -> bool:
    """Whether Han characters can be a name."""
    return 2 <= len(text) <= 5 and _HAN_NAME.fullmatch(text) is not None and not _HAN_NO_NAME.search(text)
