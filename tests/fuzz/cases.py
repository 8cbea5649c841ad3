"""One number, one case: the same seed and number make the same submission on every machine."""

from __future__ import annotations

from random import Random

from tests.fuzz import archives, corpus, damage, models, pictures
from tests.fuzz.corpus import Case

SHARES = {
    "model": 36, "model_bytes": 18, "real_model": 3, "archive": 15, "rare": 1, "bytes": 12, "picture": 8, "array": 8,
}  # fmt: skip
ENDINGS = ("png", "jpg", "bmp", "gif", "webp", "tif", "ppm")


def case(seed: int, number: int) -> Case:
    rng = Random(f"{seed}/{number}")
    family = rng.choices(list(SHARES), list(SHARES.values()))[0]
    made: Case = globals()[f"_{family}"](rng)
    return made


def _model(rng: Random) -> Case:
    name, data = models.mutated(rng)
    return Case(f"model: {name}", data, corpus.good_pictures())


def _model_bytes(rng: Random) -> Case:
    name, data = damage.damaged(rng, rng.choice((corpus.pictures_model(), corpus.pair()[0])))
    return Case(f"model bytes: {name}", data, corpus.good_pictures())


def _real_model(rng: Random) -> Case:
    name, data = damage.damaged(rng, rng.choice(corpus.real_models()))
    return Case(f"real model: {name}", data, [("samples.zip", corpus.digits()[1])])


def _archive(rng: Random) -> Case:
    trick = rng.choice(archives.TRICKS)
    return Case(f"zip: {trick.__name__}", corpus.pictures_model(), [("a.zip", trick(rng))])


def _rare(rng: Random) -> Case:
    trick = rng.choice(archives.RARE)
    return Case(f"zip: {trick.__name__}", corpus.pictures_model(), [("a.zip", trick(rng))])


def _bytes(rng: Random) -> Case:
    """A sound container, damaged without regard to what it is."""
    model, good = rng.choice(
        ((corpus.pictures_model(), corpus.good_zip()), corpus.digits(), corpus.pair(),
         (corpus.numbers_model(), corpus.numbers()))
    )  # fmt: skip
    name, data = damage.damaged(rng, good)
    return Case(f"images bytes: {name}", model, [("a.zip", data)])


def _picture(rng: Random) -> Case:
    kind = rng.choice(pictures.KINDS)
    odd = (f"odd.{rng.choice(ENDINGS)}", kind(rng))
    others = corpus.good_pictures()[:2] if rng.random() < 0.5 else ()
    options = {"allow_damaged_images": True} if others and rng.random() < 0.3 else {}
    return Case(f"picture: {kind.__name__}", corpus.pictures_model(), [odd, *others], options)


def _array(rng: Random) -> Case:
    kind = rng.choice(archives.ARRAYS)
    name = "a.zip" if kind is archives.packed_arrays else "a.npy"
    return Case(f"array: {kind.__name__}", corpus.numbers_model(), [(name, kind(rng))])
