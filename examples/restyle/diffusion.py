"""One-step image-to-image diffusion with SD-Turbo and TAESD, of parts of diffusers and transformers.

`Restyler.load` gets the weights, `Restyler.tiny` makes the same parts with small random weights, for tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

SD_TURBO = "stabilityai/sd-turbo"
TAESD = "madebyollin/taesd"
NEEDED_GB = 3.5
FILES = {
    SD_TURBO: [
        "scheduler/*",
        "text_encoder/config.json",
        "text_encoder/model.fp16.safetensors",
        "tokenizer/*",
        "unet/config.json",
        "unet/diffusion_pytorch_model.fp16.safetensors",
    ],
    TAESD: ["config.json", "diffusion_pytorch_model.safetensors"],
}


@dataclass
class Restyler:
    """Paint over images: encode, add noise, predict the noise once, subtract it, decode.

    Images are float tensors (1, 3, height, width) from -1 to 1 on `device`.
    """

    tokenizer: Any
    text_encoder: Any
    vae: Any
    unet: Any
    # The share of the image in the noisy latents at each of 1000 timesteps.
    alphas_cumprod: torch.Tensor
    device: torch.device
    dtype: torch.dtype

    @classmethod
    def load(cls, device: torch.device, *, compile: bool) -> Restyler:
        """Download the weights, unless they are in the cache, and put them on the device."""
        turbo, taesd = download(SD_TURBO), download(TAESD)
        from diffusers import AutoencoderTiny, DDPMScheduler, UNet2DConditionModel
        from transformers import CLIPTextModel, CLIPTokenizer

        dtype = torch.float32 if device.type == "cpu" else torch.float16
        half = {"variant": "fp16", "dtype": dtype}
        unet = UNet2DConditionModel.from_pretrained(turbo, subfolder="unet", **half).to(device)
        vae = AutoencoderTiny.from_pretrained(taesd, dtype=dtype).to(device)
        if compile:
            unet = torch.compile(unet)
            vae.encoder, vae.decoder = torch.compile(vae.encoder), torch.compile(vae.decoder)
        return cls(
            CLIPTokenizer.from_pretrained(turbo, subfolder="tokenizer"),
            CLIPTextModel.from_pretrained(turbo, subfolder="text_encoder", variant="fp16", dtype=dtype).to(device),
            vae,
            unet,
            DDPMScheduler.from_pretrained(turbo, subfolder="scheduler").alphas_cumprod,
            device,
            dtype,
        )

    @classmethod
    def tiny(cls) -> Restyler:
        """Return one with small random weights: it paints patterns, on two CPU cores too, and needs no files."""
        from diffusers import AutoencoderTiny, DDPMScheduler, UNet2DConditionModel
        from transformers import CLIPTextConfig, CLIPTextModel

        torch.manual_seed(0)
        channels = {"encoder_block_out_channels": (8,) * 4, "decoder_block_out_channels": (8,) * 4}
        blocks = {"num_encoder_blocks": (1,) * 4, "num_decoder_blocks": (1,) * 4}
        text = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
        unet = UNet2DConditionModel(
            block_out_channels=(16, 32),
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            layers_per_block=1,
            cross_attention_dim=32,
            attention_head_dim=8,
            norm_num_groups=8,
        )
        vae = AutoencoderTiny(**channels, **blocks)
        image = torch.rand(1, 3, 64, 64) * 2 - 1
        calibrate(vae.encoder.layers[-1], lambda: vae.encode(image).latents, mean=0.0, deviation=1.0)
        calibrate(
            vae.decoder.layers[-1],
            lambda: (vae.decode(torch.randn(1, 4, 8, 8)).sample + 1) / 2,
            mean=0.5,
            deviation=0.3,
        )
        scheduler = DDPMScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear")
        return cls(
            ByteTokenizer(),
            CLIPTextModel(CLIPTextConfig(vocab_size=258, bos_token_id=256, eos_token_id=257, **text)).eval(),
            vae.eval(),
            unet.eval(),
            scheduler.alphas_cumprod,
            torch.device("cpu"),
            torch.float32,
        )

    @torch.inference_mode()
    def encode_prompt(self, prompt: str) -> torch.Tensor:
        """Return the embedding of a prompt; embeddings may be blended."""
        tokens = self.tokenizer(prompt, padding="max_length", truncation=True, max_length=77, return_tensors="pt")
        return self.text_encoder(tokens.input_ids.to(self.device))[0]

    @staticmethod
    @torch.inference_mode()
    def blend(embedding: torch.Tensor, wanted: torch.Tensor, share: float) -> torch.Tensor:
        """Return an embedding that is a share of the way to another one.

        Outside of inference mode it would be a tensor of another kind, for which `compile` compiles the network again.
        """
        return torch.lerp(embedding, wanted, share)

    @torch.inference_mode()
    def paint(self, image: torch.Tensor, embedding: torch.Tensor, *, strength: float, seed: int) -> torch.Tensor:
        """Return an image painted over another one; a `strength` of 1 leaves nothing of that."""
        timestep = max(1, round(strength * len(self.alphas_cumprod))) - 1
        kept = self.alphas_cumprod[timestep]
        latents = self.vae.encode(image.to(self.dtype)).latents
        # Always the same noise for a seed: else every frame would flicker.
        noise = torch.randn(latents.shape, generator=torch.Generator().manual_seed(seed)).to(latents)
        noisy = kept.sqrt().item() * latents + (1 - kept).sqrt().item() * noise
        # For a plain number a compiled network is compiled again when it changes.
        at = torch.tensor(timestep, device=self.device)
        predicted = self.unet(noisy, at, encoder_hidden_states=embedding).sample
        clean = (noisy - (1 - kept).sqrt().item() * predicted) / kept.sqrt().item()
        return self.vae.decode(clean).sample.clamp(-1, 1)


class ByteTokenizer:
    """Stand in for CLIP's tokenizer, which needs files: each byte of the text is a token."""

    def __call__(self, text: str, *, max_length: int, **_: Any) -> Any:
        from transformers import BatchEncoding

        ids = [256, *text.encode()[: max_length - 2]]
        return BatchEncoding({"input_ids": torch.tensor([ids + [257] * (max_length - len(ids))])})


@torch.no_grad()
def calibrate(last: Any, run: Callable[[], torch.Tensor], *, mean: float, deviation: float) -> None:
    """Scale the random weights of a network's last layer, so that its output has this mean and deviation."""
    outputs = run()
    scale = deviation / outputs.std((0, 2, 3))
    if last.bias is None:
        last.bias = torch.nn.Parameter(torch.zeros(len(scale)))
    last.bias.copy_((last.bias - outputs.mean((0, 2, 3))) * scale + mean)
    last.weight.mul_(scale[:, None, None, None])


def download(name: str) -> Path:
    """Return the directory with the files of a model; huggingface_hub prints a bar for what it downloads."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=FILES[name]))
    except Exception as error:
        raise RuntimeError(
            f"the weights of {name} are not in the cache and can't be downloaded ({type(error).__name__}): connect "
            "this machine to huggingface.co, or copy HF_HOME from one that has them; --set tiny=true needs none"
        ) from error


def choose_device(name: str) -> torch.device:
    """Return the device of the config, or the GPU; raise RuntimeError if it is missing or has too little memory."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else ""
    if not name:
        raise RuntimeError(
            "PyTorch finds no GPU: --set tiny=true tries the example without weights, --set device=cpu takes seconds "
            "for each frame"
        )
    device = torch.device(name)
    if device.type == "cuda":
        free_gb = torch.cuda.mem_get_info(device)[0] / 1e9
        if free_gb < NEEDED_GB:
            raise RuntimeError(
                f"{device} has {free_gb:.1f} GB of free memory, and SD-Turbo needs {NEEDED_GB} GB: end other programs "
                "on it (nvidia-smi lists them), or choose another GPU with reactor run --gpus"
            )
    return device
