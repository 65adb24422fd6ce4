"""What the command line says in Chinese; English is the key."""

from __future__ import annotations

from typing import Final, Literal

CHINESE: Final = {
    "no scope: say whose memory it is, for example:": "没有指定作用域：请说明是谁的记忆，例如：",
    "try:": "请试：",
    "name": "名称",
    "policy": "策略",
    "type": "类型",
    "bytes": "字节",
    "version": "版本",
    "updated": "更新时间",
    "expires": "到期",
    "tags": "标签",
    "scope": "作用域",
    "score": "得分",
    "uses": "使用次数",
    "written": "写入时间",
    "trust": "信任",
    "source": "来源",
    "outcome": "结果",
    "value": "值",
    "never": "永不",
    "forgotten": "已遗忘",
    "stored": "已保存",
    "hidden for now; bring it back with": "已隐藏；可恢复：",
    "is back": "已恢复",
    "erased for good": "已彻底删除",
    "nothing here": "没有内容",
    "session": "会话",
    "model": "模型",
    "turns": "轮次",
    "requests": "请求",
    "used": "最近使用",
    "sheet": "价目表",
    "currency": "货币",
    "input": "输入",
    "cache write": "写缓存",
    "cache read": "读缓存",
    "output": "输出",
    "dated": "日期",
    "setting": "设置",
    "in force": "当前值",
    "default": "默认",
    "what it does": "作用",
    "check": "检查项",
    "state": "状态",
    "found": "发现",
    "what to do": "怎么办",
    "ok": "正常",
    "warn": "注意",
    "fail": "失败",
    "the store is sound": "存储完好",
    "the store is NOT sound": "存储有问题",
    "restored from": "已恢复自",
    "removed": "已移除",
    "slots": "个槽位",
    "sessions": "个会话",
    "SCRIPTED: a script stands in for the language model. It reads nothing but the request it is given.": (
        "脚本演示：这里由脚本代替语言模型，它只读取收到的请求。"
    ),
    "A memory as small as this one may as well stand in the prompt once: mode='inline' does that.": (
        "这么小的记忆不妨直接放进提示一次：mode='inline' 就是这样做的。"
    ),
    "A replay of an agent's log that was made up just now, without any model:": (
        "下面重放一份刚刚生成的代理日志，不调用任何模型："
    ),
    "… other subjects …": "……聊别的话题……",
    "memory": "记忆",
    "turn": "轮次",
    "user": "用户",
    "Where the name stood, request by request": "名字出现在哪些请求里",
    "s: in the user's or model's own words   !: shown, because asked for   ·: not a word of it": (
        "s：用户或模型自己说的   !：因被问到而展示   ·：完全没有"
    ),
    "values pasted each turn": "每轮粘贴全部值",
    "off the prompt": "不进提示",
    "input tokens": "输入令牌",
    "of them memory": "其中记忆",
    "of them conversation": "其中对话",
    "tokens of a request, mean": "每次请求平均令牌",
    "requests into which a memory put the name": "由记忆放入名字的请求数",
    "right answers of 2": "两问答对",
    "picture": "图",
    "no such file": "没有这个文件",
    "tokens": "令牌",
    "as before": "与上次相同",
    "request": "请求",
    "shown": "已展示",
    "said": "对话中说过",
    "LEAKED": "泄漏",
    "warning": "警告",
    "turns that left": "离开的轮次",
    "action": "动作",
    "refused": "未执行",
    "call": "调用",
    "receipt": "回执",
    "no value got in": "没有值进入",
    "per million tokens": "每百万令牌",
}


def say(lang: Literal["en", "zh"], text: str) -> str:
    """The text in that language; English where there is no Chinese for it."""
    return CHINESE.get(text, text) if lang == "zh" else text
