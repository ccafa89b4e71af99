from painter import Painter

painter = Painter()
for seed in range(5):
    painter.paint("a lighthouse in a storm", seed).save(f"{seed:02}.png")
