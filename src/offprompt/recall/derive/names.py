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


_GIVEN: Final = frozenset(
    """
    aaron adam adrian ahmed aisha alan albert alejandro alessandra alex alexander alexandra alexis ali alice alicia
    alison allison amanda amelia amina amy ana andre andrea andrew angela anita anna anne annie anthony antonio
    arthur ashley ben benjamin bernard beth bob brandon brenda brian bruno caitlin camila carl carla carlos carmen
    carol caroline catherine cecilia charles charlie charlotte chiara chloe chris christina christine christopher
    claire clara claudia connor craig cynthia dan daniel daniela danielle david deborah denise dennis derek diana
    diego dmitri dominic donald donna dorothy douglas dylan edward eleanor elena elizabeth ella ellen emily emma
    eric erica ethan eva evelyn fang fatima felix fernando fiona francesca francis francisco frederick gabriel gary
    george gerald giulia gloria greg gregory hannah hao harry hassan heather heidi helen henry hugo ibrahim ines
    ingrid irene isaac isabel isabella ivan jack jacob james jamie jane janet jasmine jason javier jean jeff jeffrey
    jennifer jenny jeremy jessica jie jim jing joan joe joel john jonathan jose joseph joshua juan judith judy julia
    julian julie jun karen karl kate katherine kathleen katie keith kelly kenneth kevin kim kristen kumar kyle lars
    laura lauren leah lei leon leonardo li liam linda lisa lucas lucia lucy luis luke maja margaret maria marie
    marina mario marta martha martin mary mateo matt matthew maya megan mehmet mei melissa mia michael michelle
    miguel mike ming mohamed mohammed monica natalia natalie nathan nicholas nick nicole nina noah nora olga oliver
    olivia omar oscar pablo pamela patricia patrick paul paula pedro peter philip priya rachel rafael raj rebecca
    ricardo richard rita robert roberto roger ronald rosa ruth ryan sam samantha samuel sandra sara sarah scott sean
    sebastian sergio sharon simon sofia sonia sophia sophie stefan stephanie stephen steve steven susan svetlana
    tanya teresa thomas tim timothy tom tony tyler valentina vanessa veronica victor victoria vincent vivian
    vladimir walter wei wendy william xavier xiaoli xiaoming xin xiu yan yasmin yu yuki yusuf yvonne zoe
    """.split()  # noqa: SIM905 - a list of words is read as one
)
"""Given names that are nothing else in English, not nationalities, months or states."""

_TRAIT: Final = re.compile(
    r".*(?:ian|ean|ish|ese|ist|ic|ing|ed|er|or|an|ant|ent|al|ful|less|ous|ive|able|ible|arian|y|ive|man|woman|i|in)"
    r"|vegan|trans|gay|bi|queer|lesbian|straight|black|white|brown|mixed|latin[oax]|asian|native|dutch|greek|french"
    r"|czech|swiss|thai|turk|pole|dane|swede|finn|scot|deaf|blind|mute|autistic|jew|hindu|sikh|atheist|taurus|leo|aries"
    r"|home|fresh|far|away|late|free|single|alone|god|dad|mom|mum|mama|papa|nurse|chef|coach|judge|pilot|student|intern"
    r"|senior|junior|boss|bot|human|male|female|straight|calling|writing|visiting|expat|immigrant|half|part|born|proud"
    r"|libra|scorpio|pisces|virgo|capricorn|filipin[oa]|welsh|kiwi|kurd|serb|croat|slovak|arab|zulu|aussie|brit|lead|team"
    r"|head|chief|widow|wife|husband|bride|groom|twin|divorcee|[a-z]*[^aeiouy\W\d]{4}[a-z]*",
    re.IGNORECASE,
)


def has_given_name(text: str) -> bool:
    """Whether a text begins with a common given name."""
    first = text.split(maxsplit=1)[0]
    return first.istitle() and first.casefold() in _GIVEN


def is_trait(text: str) -> bool:
    """Whether the first word of a text can say what somebody is (nation, faith, work, state) instead of a name."""
    first = text.split(maxsplit=1)[0]
    return first.isupper() or _TRAIT.fullmatch(first) is not None


_COMMON: Final = re.compile(
    r"[王李张刘陈杨黄赵周吴郑谢叶苏何徐孙朱胡郭林罗梁宋唐韩冯邓曹彭蔡潘董袁蒋杜魏吕沈姚卢姜崔谭陆汪廖贾韦邹秦邱薛阎]"
    r"[\u4e00-\u9fff]{1,2}"
)
_COMMON_WORD: Final = re.compile(
    r"周[一二三四五六日末边岁年期游转到围]|黄[牛毛金色种土昏瓜豆油连蓉药]|郑[州重]|谢[谢绝幕顶]|叶[子片公]|苏[州联菲打醒宁轼]|何[人方必时地种等处以]"
    r"|王[者牌八爷座道侯国权室妃法后府冠位]|李[逵鬼树白宁]|张[嘴望开狂扬家贴罗口飞弛力]|刘海|陈[年旧列述词酿醋皮]|杨[树梅柳桃过]|赵云"
    r"|吴语|徐[州徐汇]|孙[女辈悟]|朱[红砂门古]|胡[说同闹子扯椒须萝乱思]|郭德|林[业区场黛地中荫]|罗[马汉盘列嗦圈]|梁[山上]|宋[朝代词体江]"
    r"|唐[朝人代诗僧装突三]|韩[国语剧流系]|冯唐|曹操|彭湃|董事|袁大|蒋家|杜[绝撰甫蕾]|魏晋|沈阳|姚明|姜[黄汤太还丝]|陆[地军路续上]"
    r"|汪[汪洋]|贾宝|秦[朝始岭腔]|崔永|[\u4e00-\u9fff]{1,2}(?:某|总|哥|姐|姨|叔|爷|婶|嫂|伯|董|局|处|工|导|队|医|律|氏|姓|家|妈|爸|粉|迷"
    r"|的|了|吗|呢|吧|派|系|级|界|型|类|们|控|民|兵|士|户|客|星|长)$|.*(?:老师|先生|女士|小姐|太太|教授|同学|医生|经理|主任|老板|师傅|阿姨|大爷|大妈|律师"
    r"|警官|校长|院长|局长|总裁)"
)


def is_common_han_name(text: str) -> bool:
    """Whether Han characters are a common surname and a given name, no word, no title and no figure of a book."""
    return is_han_name(text) and _COMMON.fullmatch(text) is not None and not _COMMON_WORD.match(text)
