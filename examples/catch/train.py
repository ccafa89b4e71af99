"""Train a small policy with PPO, in NumPy: `python train.py http://127.0.0.1:8080`, while `reactor run` serves it.

Without an address the game runs in this process. The structure is that of CleanRL's ppo.py.
"""

import argparse
import contextlib
import time
from collections import deque

import numpy as np

from reactor_runtime import PipelineExecutor
from reactor_runtime.client.gym import Env

GOAL = 0.9
ROLLOUT = 512
EPOCHS = 4
MINIBATCH = 128
GAMMA, LAMBDA = 0.99, 0.95
CLIP, ENTROPY = 0.2, 0.01
LEARNING_RATE = 3e-3
HIDDEN = 64


class Policy:
    """A network with one hidden layer: logits of the actions, and the value, from the frame in 8×8."""

    def __init__(self, inputs, actions, rng):
        self.rng = rng
        self.weights = [
            rng.normal(0, 1 / np.sqrt(inputs), (inputs, HIDDEN)),
            np.zeros(HIDDEN),
            rng.normal(0, 0.01, (HIDDEN, actions + 1)),
            np.zeros(actions + 1),
        ]
        self.means = [np.zeros_like(each) for each in self.weights]
        self.squares = [np.zeros_like(each) for each in self.weights]
        self.updates = 0

    def forward(self, seen):
        first, first_bias, second, second_bias = self.weights
        hidden = np.tanh(seen @ first + first_bias)
        out = hidden @ second + second_bias
        logits = out[:, :-1] - out[:, :-1].max(1, keepdims=True)
        odds = np.exp(logits)
        return hidden, odds / odds.sum(1, keepdims=True), out[:, -1]

    def act(self, seen):
        _, chances, values = self.forward(seen[None])
        action = self.rng.choice(len(chances[0]), p=chances[0])
        return action, np.log(chances[0, action]), values[0]

    def learn(self, seen, actions, log_before, advantages, returns):
        """Make one step of Adam along the gradient of PPO's loss."""
        hidden, chances, values = self.forward(seen)
        rows = np.arange(len(seen))
        logs = np.log(chances + 1e-9)
        ratio = np.exp(logs[rows, actions] - log_before)
        is_clipped = np.where(advantages > 0, ratio > 1 + CLIP, ratio < 1 - CLIP)
        by_log = np.where(is_clipped, 0, -advantages * ratio)
        chosen = np.zeros_like(chances)
        chosen[rows, actions] = 1
        entropy = -(chances * logs).sum(1, keepdims=True)
        by_logits = by_log[:, None] * (chosen - chances) + ENTROPY * chances * (logs + entropy)
        by_out = np.column_stack([by_logits, 0.5 * (values - returns)]) / len(seen)
        by_hidden = by_out @ self.weights[2].T * (1 - hidden**2)
        self._adam([seen.T @ by_hidden, by_hidden.sum(0), hidden.T @ by_out, by_out.sum(0)])

    def _adam(self, gradients):
        self.updates += 1
        for weight, mean, square, gradient in zip(self.weights, self.means, self.squares, gradients, strict=True):
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            fair_mean, fair_square = mean / (1 - 0.9**self.updates), square / (1 - 0.999**self.updates)
            weight -= LEARNING_RATE * fair_mean / (np.sqrt(fair_square) + 1e-8)


def small(frame):
    """Return a frame as the means of 8×8 areas, from 0 to 1."""
    size = frame.shape[0] // 8
    return frame.reshape(8, size, 8, size, 3).mean((1, 3, 4)).ravel() / 255


def advantages_of(rewards, values, ends, last_value):
    """Return the generalised advantages (GAE) of a rollout."""
    found, following, carried = np.zeros(len(rewards)), last_value, 0.0
    for index in reversed(range(len(rewards))):
        goes_on = 1 - ends[index]
        change = rewards[index] + GAMMA * following * goes_on - values[index]
        found[index] = carried = change + GAMMA * LAMBDA * goes_on * carried
        following = values[index]
    return found


def train(env, most_steps, seed, goal=GOAL):
    """Train until the last 100 episodes have this mean reward; return that mean and the steps made."""
    rng = np.random.default_rng(seed)
    frame, _ = env.reset(seed=seed)
    policy = Policy(small(frame).size, int(env.action_space.n), rng)
    scores, began = deque(maxlen=100), time.perf_counter()
    for steps in range(ROLLOUT, most_steps + 1, ROLLOUT):
        rollout = []
        for _ in range(ROLLOUT):
            seen = small(frame)
            action, log, value = policy.act(seen)
            frame, reward, terminated, truncated, _ = env.step(action)
            rollout.append((seen, action, log, value, reward, terminated or truncated))
            if terminated or truncated:
                scores.append(reward)
                frame, _ = env.reset()
        seen, actions, logs, values, rewards, ends = map(np.array, zip(*rollout, strict=True))
        advantages = advantages_of(rewards, values, ends, policy.act(small(frame))[2])
        returns = advantages + values
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        for _ in range(EPOCHS):
            for part in np.split(rng.permutation(ROLLOUT), ROLLOUT // MINIBATCH):
                policy.learn(seen[part], actions[part], logs[part], advantages[part], returns[part])
        score, seconds = float(np.mean(scores)), time.perf_counter() - began
        if steps % (10 * ROLLOUT) == 0 or score >= goal:
            print(f"{steps:6} steps  {score:+.2f} reward  {seconds:4.0f} s  {steps / seconds:.0f} steps/s", flush=True)
        if score >= goal:
            break
    return score, steps


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?", help="address of the server; without it the game runs in this process")
    parser.add_argument("--steps", type=int, default=200_000, help="at most so many")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        target = given.url
        if target is None:
            from pipeline import Catch

            target = stack.enter_context(PipelineExecutor(Catch))
            target.connect(stepped=True)
        rules = None if given.url else {"message": "played", "reward": "reward", "terminated": "landed"}
        env = stack.enter_context(contextlib.closing(Env(target, environment=rules)))
        score, steps = train(env, given.steps, given.seed)
    if score < GOAL:
        raise SystemExit(f"after {steps} steps the mean reward is {score:.2f}, below {GOAL}")
    print(f"{(1 + score) / 2:.0%} of the balls are caught")


if __name__ == "__main__":
    main()
