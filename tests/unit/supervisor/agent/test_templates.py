"""What a placer asks for becomes words of a command, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from opentela.core.errors import ConfigError, UsageError
from opentela.supervisor.agent import templates
from opentela.supervisor.agent.builtin import TEMPLATES
from opentela.supervisor.agent.config import TemplateConfig
from opentela.wire.command import Start

START = Start(command="c", term=1, template="t", model="Qwen/Qwen3-8B")
PLAIN = TemplateConfig(
    command=("run", "{model}", "-p", "{port}", '{"a": 1}'),
    options={"tp": ("--tp", "{tp}"), "pp": (), "context_max": ("--ctx={context_max}",)},
)


def test_words_are_filled_one_by_one() -> None:
    """What was not asked for does not appear, and the port is left to the supervisor."""
    assert templates.argv(PLAIN, START) == ("run", "Qwen/Qwen3-8B", "-p", "{port}", '{"a": 1}')
    asked = replace(START, tp=4, pp=2, context_max=8192)
    assert templates.argv(PLAIN, asked)[5:] == ("--tp", "4", "--ctx=8192")


def test_places_in_the_command_itself_count_as_words_for_a_value() -> None:
    """Also the number of GPUs, for engines that want just that."""
    template = TemplateConfig(command=("run", "{model}", "{gpus}"))
    assert templates.argv(template, replace(START, tp=2, pp=2)) == ("run", START.model, "4")


@pytest.mark.parametrize(
    ("field", "value"), [("tp", 2), ("quantisation", "fp8"), ("kv_dtype", "fp8"), ("pp", 2)]
)
def test_what_a_template_cannot_express_is_refused(field: str, value: object) -> None:
    """An engine of another size than asked for would be worse than none."""
    template = TemplateConfig(command=("run", "{model}"))
    with pytest.raises(UsageError, match=f"template t cannot set {field} = {value}"):
        templates.argv(template, replace(START, **{field: value}))


@pytest.mark.parametrize(
    "model",
    ["m", "Qwen/Qwen3-8B", "org/model:Q4_K_M", "a/b@main", "models/x.gguf", "/scratch/x_y/z", "_m"],
)
def test_names_of_models_are_taken(model: str) -> None:
    """Of hubs, and of files."""
    templates.check_values(replace(START, model=model))


@pytest.mark.parametrize(
    "model",
    [
        "",
        "-m",
        "--trust-remote-code",
        "a/-b",
        "..",
        "../x",
        "a/../b",
        "/../etc",
        "a//b",
        "a/",
        ".hidden",
        "a b",
        "a\n",
        "a;b",
        "$(x)",
        "{port}",
        "ä",
        "a" * 257,
    ],
)
def test_what_is_no_name_of_a_model_is_refused(model: str) -> None:
    """No option, no way out of a folder, nothing that anybody could take for more."""
    with pytest.raises(UsageError, match="not a model name"):
        templates.check_values(replace(START, model=model))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("quantisation", "-x"),
        ("kv_dtype", "a b"),
        ("kv_dtype", "x" * 33),
        ("tp", 0),
        ("pp", -1),
        ("tp", 257),
        ("context_max", -1),
        ("context_max", 1 << 40),
    ],
)
def test_values_that_can_be_none_are_refused(field: str, value: object) -> None:
    """Each by its name."""
    with pytest.raises(UsageError, match=field):
        templates.check_values(replace(START, **{field: value}))


@given(model=st.text(max_size=40), word=st.text(max_size=8))
def test_whatever_is_taken_stays_one_word(model: str, word: str) -> None:
    """And none of them is an option."""
    asked = replace(START, model=model, quantisation=word, kv_dtype=word)
    try:
        templates.check_values(asked)
    except UsageError:
        return
    argv = templates.argv(TEMPLATES["vllm"], asked)
    assert len(argv) == 7 + (4 if word else 0)
    assert argv[2] == model
    assert not model.startswith("-")
    assert ".." not in model.split("/")


def test_a_provider_says_which_models_may_run() -> None:
    """Everywhere, and by each template; both must agree."""
    templates.check_allowed("Qwen/Qwen3-8B", (), ())
    templates.check_allowed("Qwen/Qwen3-8B", ("Qwen/*",), ("*8B",))
    for lists in ((("Meta/*",), ()), ((), ("Meta/*",)), (("Qwen/*",), ("Meta/*",))):
        with pytest.raises(UsageError, match="not allowed"):
            templates.check_allowed("Qwen/Qwen3-8B", *lists)


def test_a_path_must_be_named() -> None:
    """A placer does not choose among the files of a host."""
    templates.check_allowed("/models/x", ("/models/*",), ())
    for lists in (((), ()), (("*",), ())):
        with pytest.raises(UsageError, match="not allowed"):
            templates.check_allowed("/models/x", *lists)


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_our_own_templates_are_right(name: str) -> None:
    """Each takes a model, a port and a context."""
    template = TEMPLATES[name]
    templates.check(name, template)
    argv = templates.argv(template, replace(START, context_max=4096))
    assert {"Qwen/Qwen3-8B", "{port}", "4096", "127.0.0.1"} <= set(argv)


@pytest.mark.parametrize(
    ("name", "template", "fault"),
    [
        ("A b", PLAIN, "not a template name"),
        ("t", TemplateConfig(command=()), "names no program"),
        ("t", TemplateConfig(command=("{model}",)), "names no program"),
        ("t", TemplateConfig(command=("run",)), "has no {model}"),
        (
            "t",
            TemplateConfig(command=("run", "{model}", "{prot}")),
            "{prot} is not a known placeholder",
        ),
        (
            "t",
            TemplateConfig(command=("r", "{model}"), options={"x": ()}),
            "options.x is not a known option",
        ),
        ("t", TemplateConfig(command=("r", "{model}"), env={"1": ""}), "'1' is not a variable"),
        ("t", TemplateConfig(command=("r", "{model}"), env={"A": "\0"}), "contains a zero byte"),
        ("t", TemplateConfig(command=("r", "{model}\0")), "contains a zero byte"),
        ("t", replace(PLAIN, options={"tp": ("\0",)}), "contains a zero byte"),
    ],
)
def test_a_wrong_template_is_refused_at_start(
    name: str, template: TemplateConfig, fault: str
) -> None:
    """Not when the first placer asks for it."""
    with pytest.raises(ConfigError, match=fault):
        templates.check(name, template)
