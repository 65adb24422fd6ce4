"""What stands in an export of a person, in words that the person can read: English and Chinese."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PLACES: Final[Mapping[str, tuple[str, str]]] = {
    "digest_keys": ("that there is a key for digests of these ids, by a print of it", "这些标识的摘要密钥，仅列其指纹"),
    "aliases": ("other ids that stand for the same person", "代表同一个人的其他标识"),
    "slots": ("named values as they are now: name, life, tags, uses", "命名的值的现状：名称、有效期、标签、使用次数"),
    "versions": (
        "each kept version of these values, with who wrote it and when",
        "这些值保留的每个版本，及写入者与时间",
    ),
    "memories": (
        "memories, those that were replaced, archived or forgotten too, with source and times",
        "记忆，含已被取代、归档或忘记的，附来源与时间",
    ),
    "memory_versions": ("each version of a memory's text and metadata", "记忆文本和元数据的每个版本"),
    "memory_keys": ("names of writes, and the memories that they led to", "写入操作的名称及其产生的记忆"),
    "memory_index": (
        "how many bytes search derives from each text; they are made of it again",
        "检索由每条文本得出的字节数，可由文本重建",
    ),
    "memory_scopes": ("how often the memories changed", "记忆变更的次数"),
    "sessions": ("conversations: their settings and what was shown in them", "会话：其设置及其中显示过的内容"),
    "journal": ("each message of the conversations", "会话中的每条消息"),
    "bodies": ("long texts of the conversations", "会话中的长文本"),
    "ledger": (
        "each request to a language model: sizes, prices, what was shown",
        "发给语言模型的每个请求：大小、价格、显示的内容",
    ),
    "events": ("what was done, when and by whom, without values", "何时由谁做了什么，不含值"),
    "spooled": ("writes that wait on this machine for the store", "在本机等待写入存储的内容"),
    "keys": (
        "keys with which programs may ask for this person, without the secret",
        "程序可用来访问此人记忆的密钥，不含密文",
    ),
    "grants": ("spaces and agents whose memory this person finds", "此人可以查找的空间和智能体"),
    "holds": ("legal holds, with their reason", "法律保全及其原因"),
    "vectors": ("entries in an index of vectors outside", "外部向量索引中的条目"),
}
"""By place, in the order in which they are written."""

_ENGLISH: Final = """# What is stored of you

Each file has one JSON object a line (UTF-8). Times are seconds since 1-1-1970, UTC. Ids that are not there are empty.
`manifest.json` says of whom this is, when it was made, and how many records each file has.

{places}

{secrets}
"""
_CHINESE: Final = """# 关于您存储了什么

每个文件每行一个 JSON 对象（UTF-8）。时间为自 1970-1-1（UTC）起的秒数；没有的标识为空。
`manifest.json` 说明这是谁的数据、何时生成、每个文件有多少条记录。

{places}

{secrets}
"""
_SECRETS: Final = {
    True: ("Values of secrets are in these files: keep them safe.", "这些文件含有秘密的值：请妥善保管。"),
    False: (
        "Values of secrets (the policy `never`) are left out: `withheld` stands there; in other texts `[[mem:NAME]]`.",
        "秘密（策略 `never`）的值未包含：该处写有 `withheld`；其他文本引用之处写有其句柄 `[[mem:名称]]`。",
    ),
}


def readmes(*, secrets: bool) -> dict[str, str]:
    """The files that say what the others are, by name."""
    lists = ["\n".join(f"- `{name}.jsonl`: {words[at]}" for name, words in PLACES.items()) for at in (0, 1)]
    said = _SECRETS[secrets]
    return {
        "README.md": _ENGLISH.format(places=lists[0], secrets=said[0]),
        "README.zh-CN.md": _CHINESE.format(places=lists[1], secrets=said[1]),
    }
