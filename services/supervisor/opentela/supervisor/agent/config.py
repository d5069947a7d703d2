"""Every knob of an agent."""

from typing import Annotated

import msgspec
from msgspec import Meta

from opentela.supervisor.config import Count, Seconds, SupervisorConfig


class TemplateConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an engine is started. No shell reads it: each word is one argument.

    `{model}`, `{tp}`, `{pp}`, `{gpus}` (tp · pp), `{quantisation}`, `{kv_dtype}` and
    `{context_max}` are replaced by what a placer asks for, `{port}` by a free port.

    Attributes:
        command: Words that are always there.
        options: Words that are added if a value is given, by the value's name: `quantisation`,
            `kv_dtype`, `context_max`, and `tp` and `pp` when above 1. If a template has no words
            for a value, it cannot be asked for it; an empty list says that none are needed.
        env: Environment variables of the engine, besides the agent's own.
        models: Patterns of the models that may be asked for, such as `Qwen/*`; empty for any. A
            model that is an absolute path needs a pattern that begins with `/`.
        module: Python module that the command's program must have; if it or the program is missing,
            a built-in template is not offered. Empty for none.
    """

    command: tuple[str, ...]
    options: dict[str, tuple[str, ...]] = {}
    env: dict[str, str] = {}
    models: tuple[str, ...] = ()
    module: str = ""


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent.

    Attributes:
        gpus: GPUs to offer, by index or UUID as in `CUDA_VISIBLE_DEVICES`; empty for all of the
            allocation.
        slots: Places on the CPU to offer instead of GPUs, each treated as a GPU; 0 offers GPUs.
        models: Patterns of the models that any template may be asked for; empty for any.
        template: Engines that can be asked for, by name; a built-in template of the same name is
            replaced.
        builtin: Whether built-in templates are offered too, where their programs are installed.
        replicas_max: Replicas at the same time; each is a supervisor of some 80 MB besides its
            engine.
        commands_kept: Commands that are remembered, so that a repeated one is not executed again;
            one that is older than all of them is refused.
        ended_s: Seconds for which placers are told about a replica that has ended.
        supervisor: Settings of each replica, as for `otela start`; the agent itself takes access,
            site, node, labels, heartbeats, log, health page and ready file from here, too.
    """

    gpus: tuple[str, ...] = ()
    slots: Annotated[int, Meta(ge=0, le=256)] = 0
    models: tuple[str, ...] = ()
    template: dict[str, TemplateConfig] = {}
    builtin: bool = True
    replicas_max: Annotated[int, Meta(ge=1, le=64)] = 64
    commands_kept: Count = 4096
    ended_s: Seconds = 300.0
    supervisor: SupervisorConfig = SupervisorConfig()
