"""Names of people: those that are given, and those that a word before or behind them tells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from offprompt.records.redaction import Span

# The commonest surnames, of which nine in ten Chinese have one.
_SURNAMES: Final = (
    "欧阳|上官|司马|诸葛|皇甫|尉迟|公孙|慕容|司徒|夏侯|[王李张刘陈杨黄赵吴周徐孙马朱胡郭何林高罗郑梁谢宋唐许韩邓冯曹彭"
    "曾萧肖田董潘袁蔡蒋余于杜叶程魏苏吕丁任卢傅乐姚沈钟姜崔谭陆范汪廖石金韦贾夏付方邹熊白孟秦邱侯江尹薛闫段雷龙黎史陶贺毛"
    "郝顾龚邵万覃武钱戴严莫孔向汤常温康施牛樊葛邢安齐易乔伍庞颜倪庄聂章鲁岳翟殷詹申欧耿关兰焦俞左柳甘祝包宁尚符舒阮"
    "纪梅童凌毕单季裴霍涂成苗谷曲盛冉翁蓝路游辛靳管柴蒙鲍华喻祁房滕屈饶解牟艾尤时穆农司古车项卓仇简邬]"
)
_GIVEN: Final = r"[\u4e00-\u9fff]{1,2}?"
_CALLED: Final = (
    r"(?:我|他|她|名字|孩子|妈妈|爸爸|老公|老婆|妻子|丈夫|儿子|女儿|朋友|同事)的?(?:名字)?(?:叫|名叫|是叫)|名叫|叫做"
)
_ROLE: Final = (
    r"姓名|联系人|收件人|收货人|寄件人|户名|持卡人|申请人|法人|客户|患者|病人|乘客|住客|学生|员工|会员|本人|致"
)
_BEHIND: Final = r"$|[的（()），,。.;；、!！?？ \n]|先生|女士|小姐|同学|老师|医生|在|预约|身份证|手机|电话|邮箱|住"
_CHINESE: Final = re.compile(
    rf"(?:(?:{_CALLED}|{_ROLE})[ ]?(?:是|为|叫|:|：)?[ ]?|^|(?<=[（(，,。;；\n]))"
    rf"(?P<it>(?:{_SURNAMES}){_GIVEN})(?P<end>{_BEHIND})"
)
_SAID: Final = re.compile(r"(?:叫|姓名|名字|人|户名|客户|者|客|生|员工|会员|致)[ ]?(?:是|为|叫|:|：)?[ ]?$")
_TITLED: Final = ("先生", "女士", "小姐", "同学", "老师", "医生")
_WORD: Final = r"(?:[A-Z]['’])?[A-Z][a-zà-ÿ]{1,15}(?:[-'’][A-Z]?[a-zà-ÿ]{1,15})?"
_TITLE: Final = r"\b(?:Mr|Mrs|Ms|Miss|Dr|Prof)\.?[ ]"
_NAMED: Final = (
    r"\b(?:my|his|her|full|legal|customer|patient|contact|account|the)[ ](?:full[ ])?name(?:[ ]is|'s|:)[ ]"
    r"|\bname[ ]?:[ ]|\b(?:i am|i'm)[ ]called[ ]"
    r"|\b(?:signed|attn|attention|cardholder|recipient|customer|patient)[ ]?:[ ]"
)
_ENGLISH: Final = re.compile(rf"(?:{_TITLE}|(?i:{_NAMED}))(?P<it>{_WORD}(?:[ ](?:[A-Z]\.|{_WORD})){{0,2}})(?![A-Za-z])")


class NameFinder:
    """Finds given names in any text, and, if `told`, those that the words around them tell.

    given   names as they are written; case is folded, and a name in Latin letters is found as whole words only.
    """

    def __init__(self, given: Sequence[str], *, told: bool) -> None:
        self._told = told
        forms = [_form(name) for name in sorted(given, key=len, reverse=True)]
        self._given = re.compile("|".join(forms), re.IGNORECASE) if forms else None

    def find(self, text: str) -> Iterator[Span]:
        """The names in a plain text, those that are given first. Cost: O(n) for each given name at the most."""
        if self._given is not None:
            yield from (Span(match.start(), match.end(), "name") for match in self._given.finditer(text))
        if self._told:
            yield from (Span(one.start("it"), one.end("it"), "name") for one in _CHINESE.finditer(text) if _tells(one))
            yield from (Span(one.start("it"), one.end("it"), "name") for one in _ENGLISH.finditer(text))


def _form(name: str) -> str:
    latin = name[0].isascii(), name[-1].isascii()
    words = r"\s{1,3}".join(map(re.escape, name.split()))
    return (r"(?<!\w)" if latin[0] else "") + words + (r"(?!\w)" if latin[1] else "")


def _tells(match: re.Match[str]) -> bool:
    """Whether the words around tell that it is a name: one that stands at a sentence's edge needs two of them."""
    before = match.string[max(0, match.start("it") - 10) : match.start("it")]
    if _SAID.search(before) or match["end"] in _TITLED:
        return True
    after = match["end"]
    return (before.endswith(("（", "(")) and after in tuple("）)")) or (not before.strip() and after in tuple("（("))
