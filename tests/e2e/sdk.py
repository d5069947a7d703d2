"""What a consumer writes: the official OpenAI SDK against a router, streaming one answer.

`python -m tests.e2e.sdk --url U --model M` prints one JSON object with what the SDK understood.
"""

import argparse
import json
import sys

from openai import OpenAI

PROMPT = "What is the capital of Switzerland? Answer in one sentence."


def main() -> None:
    """List the models, stream one chat, print what came."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", required=True)
    options = parser.parse_args()
    # The SDK insists on a key; without configured keys the router does not look at it.
    client = OpenAI(base_url=f"{options.url}/v1", api_key="none", max_retries=0, timeout=60)
    models = [model.id for model in client.models.list()]
    pieces, finish, usage = [], [], None
    for chunk in client.chat.completions.create(
        model=options.model,
        messages=[{"role": "user", "content": PROMPT}],
        stream=True,
        stream_options={"include_usage": True},
        max_tokens=32,
        temperature=0,
    ):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            pieces.append(choice.delta.content or "")
            finish.extend([choice.finish_reason] if choice.finish_reason else [])
    told = {
        "models": models,
        "text": "".join(pieces),
        "pieces": len(pieces),
        "finish": finish,
        "completion_tokens": usage.completion_tokens if usage else None,
    }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
