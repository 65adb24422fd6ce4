"""Every label and sentence that a command says has its Chinese."""

from __future__ import annotations

import ast

from offprompt.cli.words import CHINESE, say
from tests.house.tree import PACKAGE, relative, tree

SAYERS = ("say",)


def said() -> dict[str, str]:
    """Each text given to `say`, with where; names of a loop over a literal count with all its values."""
    found: dict[str, str] = {}
    for path in sorted((PACKAGE / "cli").rglob("*.py")):
        loops: dict[str, list[str]] = {}
        for node in ast.walk(tree(path)):
            if not isinstance(node, (ast.For, ast.comprehension)) or not isinstance(node.iter, (ast.Tuple, ast.List)):
                continue
            values = [item.value for item in node.iter.elts if isinstance(item, ast.Constant)]
            if isinstance(node.target, ast.Name):
                loops.setdefault(node.target.id, []).extend(value for value in values if isinstance(value, str))
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in SAYERS:
                for argument in node.args:
                    for inner in ast.walk(argument):
                        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                            found[inner.value] = f"{relative(path)}:{node.lineno}"
                        elif isinstance(inner, ast.Name):
                            found |= {text: f"{relative(path)}:{node.lineno}" for text in loops.get(inner.id, [])}
    return found


def test_every_text_that_is_said_has_its_chinese() -> None:
    texts = said()
    assert len(texts) > 40
    assert {text: where for text, where in texts.items() if text not in CHINESE and text} == {}


def test_chinese_is_chinese_and_english_is_the_key() -> None:
    assert say("en", "stored") == "stored"
    assert say("zh", "stored") == "已保存"
    assert all(any("\u3400" <= char <= "\u9fff" for char in text) for text in CHINESE.values())
