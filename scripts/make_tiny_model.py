"""Write a Llama of 100,000 random parameters, with tokenizer and chat template, without a download.

Runs in an environment that has torch and transformers: `make engines` makes one.
"""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEXT = ("A river runs to the sea, and the sea does not fill.", "Ten foxes watched nine hens.")
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
MARKS = ["<unk>", "<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>"]


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer that was trained on two sentences."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=384,
        special_tokens=MARKS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    made.train_from_iterator(TEXT * 20, trainer)
    unknown, begin, end = MARKS[:3]
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token=unknown, bos_token=begin, eos_token=end
    )
    wrapped.chat_template = TEMPLATE
    return wrapped


def main(folder: str) -> None:
    """Write the model to *folder*; the same one each time."""
    words = tokenizer()
    words.save_pretrained(folder)
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=2048,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
