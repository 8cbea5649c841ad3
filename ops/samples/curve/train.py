"""Trains a network of 16 cells to tell the inside of a ring from the outside: a training as small as can be.

Plain Python, one CPU, some seconds. Each epoch adds a row to $MODELMILL_METRICS_FILE, which the page of the task draws.
"""

from __future__ import annotations

import json
import math
import os
import random
import time
from pathlib import Path

POINTS, CELLS, EPOCHS, RATE, SEED = 400, 16, 120, 0.1, 4
METRICS = "MODELMILL_METRICS_FILE"
Point = tuple[float, float, float]
"""x and y from -1 to 1, and 1 where it lies within the ring, else 0."""


def points(count: int, chance: random.Random) -> list[Point]:
    places = [(chance.uniform(-1, 1), chance.uniform(-1, 1)) for _ in range(count)]
    return [(x, y, float(x * x + y * y < 0.5)) for x, y in places]


class Network:
    """Cells of tanh, whose weighted sum is read as a probability."""

    def __init__(self, chance: random.Random) -> None:
        self.cells = [[chance.gauss(0, 1) for _ in range(3)] for _ in range(CELLS)]
        self.weights = [chance.gauss(0, 0.5) for _ in range(CELLS)]
        self.bias = 0.0

    def answer(self, x: float, y: float) -> tuple[float, list[float]]:
        """The probability of "within", and what the cells gave."""
        given = [math.tanh(a * x + b * y + c) for a, b, c in self.cells]
        total = self.bias + sum(weight * value for weight, value in zip(self.weights, given, strict=True))
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, total)))), given

    def learn(self, point: Point) -> float:
        """One step of gradient descent; the loss before it."""
        x, y, label = point
        probability, given = self.answer(x, y)
        slope = probability - label
        self.bias -= RATE * slope
        for at, value in enumerate(given):
            inner = slope * self.weights[at] * (1 - value * value)
            self.weights[at] -= RATE * slope * value
            for place, step in enumerate((x, y, 1.0)):
                self.cells[at][place] -= RATE * inner * step
        return -math.log(max(probability if label else 1 - probability, 1e-9))


def main() -> None:
    chance = random.Random(SEED)
    learned, held = points(POINTS, chance), points(POINTS, chance)
    network = Network(chance)
    for epoch in range(1, EPOCHS + 1):
        chance.shuffle(learned)
        loss = sum(map(network.learn, learned)) / POINTS
        accuracy = sum((network.answer(x, y)[0] > 0.5) == bool(label) for x, y, label in held) / POINTS
        tell(epoch, loss=loss, accuracy=accuracy)
    print(f"accuracy on {POINTS} points that it has not seen: {accuracy:.1%}", flush=True)


def tell(epoch: int, **figures: float) -> None:
    if path := os.environ.get(METRICS):
        with Path(path).open("a") as file:
            file.write(json.dumps({"step": epoch, "time": time.time(), **figures}) + "\n")
    if epoch % 10 == 0:
        words = "  ".join(f"{name} {value:.3f}" for name, value in figures.items())
        print(f"epoch {epoch:3}/{EPOCHS}  {words}", flush=True)


if __name__ == "__main__":
    main()
