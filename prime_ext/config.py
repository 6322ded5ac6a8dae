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
    """Choice of the model, and how its server is reached."""

    provider = Enum(
        ("auto", "offline", "anthropic", "bedrock", "vertex", "foundry"),
        "auto",
        help="Who serves the model. `auto`: `anthropic` if a key or a server is configured, else "
        "the offline agent.",
    ).tag(config=True)
    model = Unicode(
        "",
        help="Model id. Empty: the newest Sonnet that the Models API lists, `claude-sonnet-5-5` "
        "where it cannot be asked.",
    ).tag(config=True)
    base_url = Unicode(
        "",
        help="URL of a server that speaks the Messages API. Empty: `ANTHROPIC_BASE_URL`, else the "
        "provider's own.",
    ).tag(config=True)
    api_key = Unicode(
        "",
        help="API key. Prefer the environment variable `PRIME_API_KEY`, or enter it in the panel.",
    ).tag(config=True)
    region = Unicode("", help="Region for Bedrock and Vertex. Empty: the SDK's own default.").tag(
        config=True
    )
    project = Unicode("", help="Project id for Vertex, resource name for Foundry.").tag(config=True)
    max_output_tokens = Int(
        0, min=0, help="Tokens of one reply at most. 0: the smaller of 32,000 and the model's own."
    ).tag(config=True)
    thinking_tokens = Int(
        0, min=0, help="Tokens of extended thinking in one reply at most. 0: thinking is off."
    ).tag(config=True)
    max_attempts = Int(
        6, min=1, help="How often one request is tried when the server is busy or out of reach."
    ).tag(config=True)
    stall_seconds = Float(
        120.0, min=1.0, help="A stream that is silent for so many seconds is taken for dead."
    ).tag(config=True)
    consent = Enum(
        ("remote", "always", "never"),
        "remote",
        help="When to ask before the first message to a model leaves: `remote` for any server but "
        "this machine, `always`, or `never` (the administrator has settled it).",
    ).tag(config=True)
    max_requests_per_turn = Int(
        60, min=0, help="Requests in one turn before the user is asked to go on. 0: no limit."
    ).tag(config=True)
    max_cost_per_turn = Float(
        5.0,
        min=0.0,
        help="Estimated US dollars in one turn before the user is asked to go on. 0: no limit.",
    ).tag(config=True)
    run_notice_seconds = Float(
        240.0,
        min=0.0,
        help="After so many seconds the model is told that a run goes on, and may wait for it or "
        "interrupt it. Less than the five minutes that the prompt cache lives. 0: never.",
    ).tag(config=True)


class ContextConfig(Configurable):
    """Size limits of the model's context, and what a compaction keeps of it."""

    max_context_tokens = Int(
        0,
        min=0,
        help="Tokens at which the conversation is compacted. 0: the smaller of 300,000 and the "
        "model's window less its largest reply (ModelConfig.max_output_tokens) less 20,000.",
    ).tag(config=True)
    prefire_margin_tokens = Int(
        0,
        min=0,
        help="Tokens before the threshold at which the background note is made. 0: 10 % of it.",
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
        help="Tokens of the newest messages kept verbatim behind a summary. 0: the smaller of "
        "16,000 and 20 % of the threshold.",
    ).tag(config=True)
    landing_share = Float(
        0.5,
        min=0.1,
        max=0.9,
        help="Share of the threshold under which a compaction or prune must land.",
    ).tag(config=True)
    tool_result_cap_tokens = Int(
        0,
        min=0,
        help="Tokens of one tool result that the model is sent at most; the rest stays in a file. "
        "0: the smaller of 10,000 and 5 % of the threshold.",
    ).tag(config=True)
    server_side = Enum(
        SERVER_SIDE,
        "off",
        help="What is left to the model's server, where it offers that. `off`: nothing. "
        "`context_editing`: it leaves out old tool outputs, instead of the previews sent to it. "
        "`compaction`: it writes and signs the summaries. Betas of Anthropic's own API; with "
        "other providers, and where the server refuses, all is done here as with `off`.",
    ).tag(config=True)


class SnapshotConfig(Configurable):
    """Saving and restoring the kernel's variables."""

    enabled = Bool(True, help="Save the kernel's variables, so that they can be restored.").tag(
        config=True
    )
    store = Unicode(
        "",
        help="fsspec URL, such as `s3://bucket/prime`, where kernels that do not see the server's "
        "files keep their snapshots, each session in a folder of its own. The kernel's environment "
        "needs fsspec, the package of the protocol, and credentials; else, and by default, the "
        "snapshots are sent to the server. With `file:///a/directory` the kernel saves in that "
        "directory of its own machine.",
    ).tag(config=True)
    seconds_per_variable = Float(
        5.0, min=0.1, help="Seconds that saving one variable may take."
    ).tag(config=True)
    seconds_total = Float(30.0, min=0.1, help="Seconds that one snapshot may take.").tag(
        config=True
    )
    restore = Enum(
        RESTORE_MODES,
        "auto",
        help="When variables come back by themselves into a fresh kernel. `auto`: after a crash, "
        "at most twice in a row; after a restart by the user, a shutdown, culling, or a restart "
        "of the server they are offered. `always`: after each of these. `ask`: always offered. "
        "`never`: neither; they can still be restored from the panel. Users choose for themselves "
        "in the settings of JupyterLab; this is the default.",
    ).tag(config=True)
    max_bytes = Int(
        0,
        min=0,
        help="Bytes of one snapshot; the largest variables are left out of a larger one, and "
        "named. 0: half of the free disk.",
    ).tag(config=True)
    total_bytes = Int(
        0,
        min=0,
        help="Bytes of snapshots kept for all sessions together; those of the sessions used least "
        "recently go first, never those of a session that is open. 0: 10 % of the disk, 50 GB at "
        "most.",
    ).tag(config=True)
    fork = Bool(True, help="Write snapshots from a forked child where that is safe.").tag(
        config=True
    )


class PermissionConfig(Configurable):
    """Permission modes: what the agent may do without asking."""

    default_mode = Enum(PERMISSION_MODES, "ask", help="Permission mode of a new session.").tag(
        config=True
    )
    allowed_modes = List(
        Enum(PERMISSION_MODES),
        list(PERMISSION_MODES),
        help="Permission modes that users may choose. On the command line once for each: "
        "`--PermissionConfig.allowed_modes=ask --PermissionConfig.allowed_modes=plan`.",
    ).tag(config=True)

    @validate("allowed_modes")
    def _at_least_one_mode(self, proposal: dict[str, list[str]]) -> list[str]:
        if not proposal["value"]:
            raise TraitError("PermissionConfig.allowed_modes needs at least one mode.")
        return proposal["value"]
