"""Equal where the answers are, different where one thing that decides them is."""

from typing import Any

from opentela.supervisor import fingerprint
from opentela.supervisor.fingerprint import Parts

PARTS = Parts(
    engine=("vllm", "0.32.0"),
    context_max=4096,
    quantisation="fp8",
    weights="abc",
    adapter="",
    told=("template",),
    arguments=(("dtype", "bfloat16"),),
)


def words(text: str, **measured: str) -> tuple[tuple[str, ...], ...]:
    return fingerprint.arguments(text.split(), measured)


def test_a_change_of_any_part_changes_it() -> None:
    """None of them is without influence, and none is mistaken for another."""
    changes: dict[str, Any] = {
        "engine": ("vllm", "0.33.0"),
        "context_max": 8192,
        "quantisation": "",
        "weights": "other",
        "adapter": "lora",
        "told": (),
        "arguments": (),
    }
    assert set(changes) == set(Parts._fields)
    found = {fingerprint.of(PARTS)}
    found |= {fingerprint.of(PARTS._replace(**{name: to})) for name, to in changes.items()}
    assert len(found) == len(changes) + 1
    assert all(len(one) == 2 * fingerprint.DIGEST_BYTES for one in found)


def test_unmeasured_weights_have_none() -> None:
    """Two unknown models must not be taken for one."""
    assert fingerprint.of(PARTS._replace(weights="")) == ""


def test_where_it_listens_and_how_work_is_spread_is_of_no_account() -> None:
    """Replicas of one model differ in these from node to node."""
    one = words("serve /x/model --host h --port 1 --tensor-parallel-size=2 --dtype bfloat16")
    two = words("serve /x/model --port 2 --api-key k --dtype=bfloat16 --served-model-name a b")
    assert one == two == (("", "serve", "/x/model"), ("dtype", "bfloat16"))


def test_the_order_and_spelling_of_options_is_of_no_account() -> None:
    """An option with an underscore or an equals sign is the same option."""
    assert words("--dtype half --kv_cache_dtype=fp8") == words("--kv-cache-dtype fp8 --dtype half")


def test_of_one_option_given_twice_the_order_counts() -> None:
    """For the engine the last one wins."""
    assert words("--dtype half --dtype auto") != words("--dtype auto --dtype half")


def test_an_unknown_option_counts() -> None:
    """Equal fingerprints promise equal answers; the reverse is not promised."""
    assert words("--novel-thing 1") != words("--novel-thing 2") != words("")


def test_a_negative_number_is_a_value() -> None:
    """Such as a seed."""
    assert words("--seed -1 --dtype half") == (("dtype", "half"), ("seed", "-1"))


def test_a_file_counts_as_what_is_in_it() -> None:
    """The same template lies elsewhere on another node."""
    one = words("--chat-template /a/t.jinja", **{"/a/t.jinja": "digest"})
    two = words("--chat-template=/b/t.jinja", **{"/b/t.jinja": "digest"})
    assert one == two == (("chat-template", "digest"),)
