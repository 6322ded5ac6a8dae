"""Configuration: every trait can be set in a config file or on the command line.

``jupyter lab --ContextConfig.max_context_tokens=150000``
"""

from __future__ import annotations

from traitlets import Bool, Enum, Float, Int, List, TraitError, Unicode, validate
from traitlets.config import Configurable

SERVER_SIDE = ("off", "context_editing", "compaction")
PERMISSION_MODES = ("ask", "edit", "auto", "plan")
RESTORE_MODES = ("auto", "always", "ask", "never")


class ModelConfig(Configurable):
    """Which model answers, and how to connect to it."""

    provider = Enum(
        ("auto", "offline", "anthropic", "bedrock", "vertex", "foundry"),
        "auto",
        help="Which service runs the model. `auto`: `anthropic` if a key or a server is "
        "configured, otherwise the offline agent.",
    ).tag(config=True)
    model = Unicode(
        "",
        help="Model id. If empty: the newest Sonnet that the Models API lists, or "
        "`claude-sonnet-5-5` if it cannot be asked.",
    ).tag(config=True)
    base_url = Unicode(
        "",
        help="URL of a server that speaks the Messages API. If empty: `ANTHROPIC_BASE_URL`, "
        "otherwise the provider's own URL.",
    ).tag(config=True)
    api_key = Unicode(
        "",
        help="API key. Prefer the environment variable `PRIME_API_KEY`, or enter it in the panel.",
    ).tag(config=True)
    region = Unicode(
        "", help="Region for Bedrock and Vertex. If empty: the SDK's own default."
    ).tag(config=True)
    project = Unicode("", help="Project id for Vertex, resource name for Foundry.").tag(config=True)
    max_output_tokens = Int(
        0,
        min=0,
        help="Maximum number of tokens in one reply. 0: the smaller of 32,000 and the model's own "
        "maximum.",
    ).tag(config=True)
    thinking_tokens = Int(
        0,
        min=0,
        help="Maximum number of tokens of extended thinking in one reply. 0: thinking is off.",
    ).tag(config=True)
    max_attempts = Int(
        6,
        min=1,
        help="How many times a request is attempted when the server is busy or cannot be reached.",
    ).tag(config=True)
    stall_seconds = Float(
        120.0, min=1.0, help="A stream that is silent for this many seconds is considered dead."
    ).tag(config=True)
    consent = Enum(
        ("remote", "always", "never"),
        "remote",
        help="When to ask for consent before the first message is sent to a model: `remote` asks "
        "for every server except this machine, `always` for every server, `never` does not ask "
        "(the administrator has settled it).",
    ).tag(config=True)
    max_requests_per_turn = Int(
        60,
        min=0,
        help="Number of requests in one turn after which the user is asked whether to continue. "
        "0: no limit.",
    ).tag(config=True)
    max_cost_per_turn = Float(
        5.0,
        min=0.0,
        help="Estimated cost of one turn, in US dollars and without that of summaries, above which "
        "the user is asked whether to continue. 0: no limit.",
    ).tag(config=True)
    run_notice_seconds = Float(
        240.0,
        min=0.0,
        help="After this many seconds the model is told that a run is still going on, and can wait "
        "for it or interrupt it. Keep it below the five minutes for which the prompt cache lives. "
        "0: never.",
    ).tag(config=True)


class ContextConfig(Configurable):
    """How large the conversation may grow, and what compaction keeps."""

    max_context_tokens = Int(
        0,
        min=0,
        help="The threshold: number of tokens at which the conversation is compacted. 0: the "
        "smaller of 300,000 and the model's window less its largest reply "
        "(ModelConfig.max_output_tokens) less 20,000.",
    ).tag(config=True)
    prefire_margin_tokens = Int(
        0,
        min=0,
        help="How many tokens before the threshold the background note is made. 0: 10 % of the "
        "threshold.",
    ).tag(config=True)
    prefix_share = Float(
        0.95,
        min=0.5,
        max=1.0,
        help="Share of the context that the background note covers.",
    ).tag(config=True)
    keep_tail_tokens = Int(
        0,
        min=0,
        help="Tokens of the newest messages kept verbatim after a summary. 0: the smaller of "
        "16,000 and 20 % of the threshold.",
    ).tag(config=True)
    landing_share = Float(
        0.5,
        min=0.1,
        max=0.9,
        help="A compaction or prune must bring the context below this share of the threshold.",
    ).tag(config=True)
    tool_result_cap_tokens = Int(
        0,
        min=0,
        help="Maximum number of tokens of one tool result that the model is sent; the full text "
        "stays in a file. 0: the smaller of 10,000 and 5 % of the threshold.",
    ).tag(config=True)
    server_side = Enum(
        SERVER_SIDE,
        "off",
        help="What the model's server does, if it can. `off`: nothing. `context_editing`: it "
        "leaves out old tool outputs, instead of being sent previews. `compaction`: it writes and "
        "signs the summaries. These are beta features of Anthropic's own API; with other "
        "providers, and if the server refuses, everything works as with `off`.",
    ).tag(config=True)


class SnapshotConfig(Configurable):
    """Saving and restoring the kernel's variables."""

    enabled = Bool(True, help="Save the kernel's variables, so that they can be restored.").tag(
        config=True
    )
    store = Unicode(
        "",
        help="fsspec URL, such as `s3://bucket/prime`, where kernels that do not see the server's "
        "files keep their snapshots, in one folder per session. The kernel's environment needs "
        "fsspec, the package of the protocol, and credentials; otherwise, and by default, the "
        "snapshots are sent to the server. With `file:///a/directory` the kernel saves in that "
        "directory of its own machine.",
    ).tag(config=True)
    seconds_per_variable = Float(
        5.0, min=0.1, help="Maximum time for saving one variable, in seconds."
    ).tag(config=True)
    seconds_total = Float(30.0, min=0.1, help="Maximum time for one snapshot, in seconds.").tag(
        config=True
    )
    restore = Enum(
        RESTORE_MODES,
        "auto",
        help="When variables are restored automatically into a fresh kernel. `auto`: after a "
        "crash, at most twice in a row; after a restart by the user, a shutdown, culling, or a "
        "restart of the server, restoring is offered. `always`: automatically after each of these. "
        "In both modes restoring is offered, too, if the kernel died soon after each of the last "
        "two restores, before any code had run to its end. `ask`: always offered. `never`: "
        "neither; the panel's menu can still restore them. This is the default; users can choose "
        "for themselves in JupyterLab's settings.",
    ).tag(config=True)
    max_bytes = Int(
        0,
        min=0,
        help="Maximum size of one snapshot in bytes; above it the largest variables are left out, "
        "and named. 0: half of the free disk space.",
    ).tag(config=True)
    total_bytes = Int(
        0,
        min=0,
        help="Maximum size of the snapshots of all sessions together, in bytes. Above it those of "
        "the least recently used sessions are removed, but never those of an open session. 0: 10 % "
        "of the disk, 50 GB at most.",
    ).tag(config=True)
    fork = Bool(True, help="Write snapshots from a forked child where that is safe.").tag(
        config=True
    )


class PermissionConfig(Configurable):
    """What the agent may do without asking."""

    default_mode = Enum(PERMISSION_MODES, "ask", help="Permission mode of a new session.").tag(
        config=True
    )
    allowed_modes = List(
        Enum(PERMISSION_MODES),
        list(PERMISSION_MODES),
        help="Permission modes that users may choose. On the command line, repeat the option for "
        "each mode: `--PermissionConfig.allowed_modes=ask --PermissionConfig.allowed_modes=plan`.",
    ).tag(config=True)

    @validate("allowed_modes")
    def _at_least_one_mode(self, proposal: dict[str, list[str]]) -> list[str]:
        if not proposal["value"]:
            raise TraitError("PermissionConfig.allowed_modes needs at least one mode.")
        return proposal["value"]
