"""Small Hugging Face models with weights by a formula: PyTorch's losses, a few steps of training, and generation."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

SIZES = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
IDS = (torch.arange(24).reshape(2, 12) * 37) % 89 + 5
IMAGES = torch.linspace(-9, 9, 2 * 3 * 32 * 32).sin().reshape(2, 3, 32, 32)
SOUND = torch.linspace(-9, 9, 2 * 20 * 100).sin().reshape(2, 20, 100)
WHISPER = {
    "vocab_size": 100, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_mel_bins": 20,
    "max_source_positions": 50, "max_target_positions": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 3, "suppress_tokens": None, "begin_suppress_tokens": None,
}  # fmt: skip
TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
# The model, its inputs, and what it generates from.
MODELS = {
    "gpt2": (
        lambda: GPT2LMHeadModel(GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=64, **TOKENS)),
        {"input_ids": IDS, "labels": IDS},
        {"inputs": IDS},
    ),
    "bert": (
        lambda: BertForSequenceClassification(BertConfig(**SIZES, num_labels=3)),
        {"input_ids": IDS, "attention_mask": (IDS < 80).long(), "labels": torch.tensor([0, 2])},
        None,
    ),
    "bert for masked words": (lambda: BertForMaskedLM(BertConfig(**SIZES)), {"input_ids": IDS, "labels": IDS}, None),
    "llama": (
        lambda: LlamaForCausalLM(LlamaConfig(**SIZES, num_key_value_heads=2, **TOKENS)),
        {"input_ids": IDS, "labels": IDS},
        {"inputs": IDS},
    ),
    "t5": (
        lambda: T5ForConditionalGeneration(
            T5Config(vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
        ),
        {"input_ids": IDS, "labels": IDS},
        {"inputs": IDS},
    ),
    "vit": (
        lambda: ViTForImageClassification(
            ViTConfig(
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                intermediate_size=64,
                image_size=32,
                patch_size=8,
                num_labels=4,
            )
        ),
        {"pixel_values": IMAGES, "labels": torch.tensor([1, 3])},
        None,
    ),
    "whisper": (
        lambda: WhisperForConditionalGeneration(WhisperConfig(**WHISPER)),
        {"input_features": SOUND, "labels": IDS},
        {"input_features": SOUND},
    ),
}
# PyTorch's losses of three steps.
LOSSES = {
    "gpt2": (4.64888, 4.50391, 4.466825),
    "bert": (1.03449, 0.997859, 0.965511),
    "bert for masked words": (4.608081, 4.471806, 4.332101),
    "llama": (4.640017, 4.565141, 4.506505),
    "t5": (4.58293, 4.522936, 4.474939),
    "vit": (1.871352, 1.14584, 0.876541),
    "whisper": (5.126596, 4.748047, 4.61756),
}


def made(name):
    """The model with weights by a formula, so that every library has the same."""
    model = MODELS[name][0]()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            wave = (torch.arange(parameter.numel(), dtype=torch.float64) * (0.7 + number / 50)).sin() * 0.1
            parameter.add_(0).copy_(wave.reshape(parameter.shape) + (1.0 if parameter.dim() == 1 else 0.0))
    return model.eval()


@pytest.mark.parametrize("name", MODELS)
def test_losses_in_training(name):
    model, losses = made(name), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(**MODELS[name][1]).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert losses == pytest.approx(LOSSES[name], rel=1e-4)


@pytest.mark.parametrize("name", [name for name in MODELS if MODELS[name][2]])
@pytest.mark.parametrize("how", [{"do_sample": False}, {"num_beams": 2}, {"do_sample": True, "top_k": 5, "top_p": 0.9}])
def test_generation(name, how):
    torch.manual_seed(0)
    model, inputs = made(name), MODELS[name][2]
    written = model.generate(**inputs, max_new_tokens=5, **how)
    assert 0 <= written.min().item() <= written.max().item() < 100
    again = model.generate(**inputs, max_new_tokens=5, use_cache=False, do_sample=False)
    if how == {"do_sample": False}:
        assert written.tolist() == again.tolist()


def test_saving(tmp_path):
    model = made("gpt2")
    model.save_pretrained(tmp_path)
    loaded = GPT2LMHeadModel.from_pretrained(tmp_path).eval()
    assert (tmp_path / "model.safetensors").exists()
    assert torch.equal(model(IDS).logits, loaded(IDS).logits)
