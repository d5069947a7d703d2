#!/usr/bin/env bash
# Makes an environment with SGLang for CPUs, on top of the one that make_vllm.sh made: it shares
# torch and most else with that, and adds 1.4 GB. Nothing is made twice.
#
# SGLang is published for CUDA; its Python runs on a CPU as well (`--device cpu`, attention by
# torch), as long as what it imports is there. torchvision is not: PyPI's is built for another
# torch. SGLang imports it for images alone, so that an empty stand-in is enough for text.
set -euo pipefail
VERSION=0.5.23
folder=${1:?usage: make_sglang.sh FOLDER VLLM_FOLDER}
vllm=$(realpath "${2:?usage: make_sglang.sh FOLDER VLLM_FOLDER}")
[[ -e $folder/ready-$VERSION ]] && exit
"${PYTHON:-python3.11}" -m venv "$folder"
site=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$vllm/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$site/base.pth"
"$folder/bin/python" -m pip install -qq --no-deps "sglang==$VERSION" sglang-kernel==0.4.10 \
  orjson==3.13.0 ipython==9.18.1 traitlets==5.16.1 gguf==0.19.0 soundfile==0.14.0
mkdir -p "$site/torchvision"
cat >"$site/torchvision/__init__.py" <<'PYTHON'
"""Nothing of torchvision, under its names."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

__version__ = "0"


class Nothing(ModuleType):
    def __init__(self, name):
        super().__init__(name)
        self.__path__ = []
        self.__spec__ = ModuleSpec(name, None)
        sys.modules[name] = self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(f"{self.__name__}.{name}")


for part in ("io", "transforms", "transforms.functional", "transforms.v2", "transforms.v2.functional"):
    Nothing(f"torchvision.{part}")
from torchvision import io, transforms  # noqa
PYTHON
touch "$folder/ready-$VERSION"
