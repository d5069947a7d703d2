"""What a consumer of LiteLLM writes, run in LiteLLM's own environment.

`python litellm_client.py URL MODEL` prints one JSON object with what it understood.
"""

import asyncio
import json
import sys
from typing import Any

import litellm

MESSAGES = [{"role": "user", "content": "hi"}]


def failure(call: Any, **given: object) -> dict[str, object]:
    """Return what *call* raises."""
    try:
        call(**given)
    except Exception as error:  # noqa: BLE001 - which it is, is told
        return {"name": type(error).__name__, "status": getattr(error, "status_code", None)}
    return {}


async def leave(given: dict[str, Any]) -> int:
    """Return how many chunks were read before the stream was left."""
    count = 0
    stream = await litellm.acompletion(messages=MESSAGES, stream=True, **given)
    async for _ in stream:
        count += 1
        if count == 3:
            break
    await stream.aclose()
    return count


def main(url: str, model: str) -> None:
    """Ask for everything that the library knows of this kind of server."""
    litellm.suppress_debug_info = True
    given: dict[str, Any] = {
        "model": f"openai/{model}",
        "api_base": f"{url}/v1",
        "api_key": "none",
        "num_retries": 0,
        "max_retries": 0,
        "timeout": 20,
    }
    whole = litellm.completion(messages=MESSAGES, max_tokens=8, **given)
    chunks = litellm.completion(
        messages=MESSAGES,
        max_tokens=8,
        stream=True,
        stream_options={"include_usage": True},
        **given,
    )
    pieces, tokens = [], 0
    for chunk in chunks:
        if chunk.choices:
            pieces.append(chunk.choices[0].delta.content or "")
        usage = getattr(chunk, "usage", None)
        tokens = usage.completion_tokens if usage else tokens
    vectors = litellm.embedding(input=["hi"], encoding_format="float", **given)
    told = {
        "chat": whole.choices[0].message.content,
        "tokens": whole.usage.completion_tokens,
        "stream": "".join(pieces),
        "stream_tokens": tokens,
        "vector": vectors.data[0]["embedding"],
        "unknown": failure(
            litellm.completion, messages=MESSAGES, **given | {"model": "openai/no/such"}
        ),
        "left": asyncio.run(leave(given)),
    }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
