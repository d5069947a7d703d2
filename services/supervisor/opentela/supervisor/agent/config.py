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
        command: The words that are always there.
        options: Words that are added when a value is given, by the value's name: `quantisation`,
            `kv_dtype`, `context_max`, and `tp` and `pp` when above 1. What a template has no words
            for cannot be asked of it; an empty list says that none are needed.
        env: Variables of the engine, beside ours.
        models: Patterns of the only models that it may be asked for, such as `Qwen/*`; empty for
            any. A model that is an absolute path needs a pattern that begins with `/`.
        module: Python module that the command's program must have; where it is missing, and where
            the program is, a template of ours is not offered. Empty for none.
    """

    command: tuple[str, ...]
    options: dict[str, tuple[str, ...]] = {}
    env: dict[str, str] = {}
    models: tuple[str, ...] = ()
    module: str = ""


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent.

    Attributes:
        gpus: Those that are offered, by index or UUID as `CUDA_VISIBLE_DEVICES` names them; empty
            offers all that the allocation has.
        slots: Above 0 offers so many places on the CPU instead, each as if it were a GPU.
        models: Patterns of the only models that any template may be asked for; empty for any.
        template: Engines that can be asked for, by name; one of ours is replaced by its name.
        builtin: Whether our own templates are offered too, where their programs are found.
        replicas_max: Replicas at once; each is a supervisor of some 80 MB beside its engine.
        commands_kept: Commands that are remembered, so that a repeated one is not done again; one
            that is older than all of them is refused.
        ended_s: For so long, placers are told of a replica that has ended.
        supervisor: Of each replica, as for `otela start`; the agent itself has its access, site,
            node, labels, beats, log, health page and ready file from there, too.
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
