"""Words that say how a sentence is built and nothing of what it is about; a query leaves them out."""

from __future__ import annotations

from typing import Final

_ENGLISH: Final = """
a an the this that these those i me my mine myself you your yours yourself he him his himself she her hers herself it
its itself we us our ours ourselves they them their theirs themselves who whom whose which what when where why how
am is are was were be been being do does did done doing have has had having will would shall should can could might
must and or but nor so if then than as of at by for from in into on onto to with without about over under up down out
off there here not no yes any some each every both all such own same too very just also only again once
s t re ve ll d m don doesn didn isn aren wasn weren won wouldn ca
"""
_CHINESE: Final = """
的 了 是 我 你 您 他 她 它 们 在 有 和 与 或 就 都 也 很 吗 呢 吧 啊 呀 嘛 着 过 得 地 把 被 给 让 对 从 到 这 那 个 些
么 什 哪 谁 怎 之 而 及 但 又 再 不 没 要 会 能 可 以 我们 你们 他们 她们 它们 什么 怎么 怎样 哪里 哪个 哪些 这个 那个
这些 那些 这样 那样 可以 没有 是的 的是 是什 有什 了吗 的吗 是不 不是 有没 我的 你的 他的 她的 一个
"""

STOP_TERMS: Final = frozenset(_ENGLISH.split()) | frozenset(_CHINESE.split())
