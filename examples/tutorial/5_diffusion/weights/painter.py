import torch
from diffusers import AutoPipelineForText2Image

WIDTH, HEIGHT = 512, 512


class Painter:
    def __init__(self):
        self.pipe = AutoPipelineForText2Image.from_pretrained(
            "stabilityai/sd-turbo", dtype=torch.float16, variant="fp16"
        ).to("cuda")
        self.pipe.set_progress_bar_config(disable=True)

    def paint(self, prompt, seed):
        noise = torch.Generator("cpu").manual_seed(seed)
        options = {"width": WIDTH, "height": HEIGHT, "num_inference_steps": 1, "guidance_scale": 0.0}
        return self.pipe(prompt, generator=noise, **options).images[0]
