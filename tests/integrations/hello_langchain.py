"""The hello-worlds of LangChain and LangGraph, as a process of its own: `hello_langchain.py URL FOLDER THREAD WORDS…`.

FOLDER   of the memory's database, and of the conversation of each thread, as a checkpointer stores it.
Prints   the agent's answers, then how often the thread's user came, as a graph counts it in its store.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, TypedDict

from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.runtime import Runtime

import offprompt
from offprompt.integrations.langchain import OffpromptMiddleware
from offprompt.integrations.langgraph import OffpromptStore


class Visit(TypedDict):
    user: str


def count(state: Visit, runtime: Runtime[None]) -> Visit:
    store: Any = runtime.store
    known = store.get(("visits", state["user"]), "count")
    store.put(("visits", state["user"]), "count", {"n": 1 if known is None else known.value["n"] + 1})
    return state


def main(url: str, folder: str, thread: str, *words: str) -> None:
    given: dict[str, Any] = {"model": "gpt-4o-mini", "base_url": f"{url}/v1", "api_key": "sk-ours", "max_retries": 0}
    model = ChatOpenAI(**given)
    config: Any = {"configurable": {"thread_id": thread, "user_id": "alice"}}
    serde, file = JsonPlusSerializer(), Path(folder) / f"{thread}.state"
    build: Any = create_agent  # pyright: ignore[reportUnknownVariableType]
    with offprompt.open(Path(folder) / "agent.db") as memory:
        agent = build(model, [], middleware=[OffpromptMiddleware(memory)], checkpointer=InMemorySaver())
        if file.exists():
            agent.update_state(config, {"messages": serde.loads_typed(("msgpack", file.read_bytes()))}, as_node="model")
        for each in words:
            done = agent.invoke({"messages": [{"role": "user", "content": each}]}, config)
            sys.stdout.write(f"{done['messages'][-1].text}\n")
        made: Any = StateGraph(Visit)
        store = OffpromptStore(memory)
        graph = made.add_node("count", count).add_edge(START, "count").compile(store=store)
        graph.invoke({"user": "alice"})
        sys.stdout.write(f"{[item.value for item in store.search(('visits',))]}\n")
        file.write_bytes(serde.dumps_typed(agent.get_state(config).values["messages"])[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
