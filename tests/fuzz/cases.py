"""One number, one case: the same seed and number make the same submission on every machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from tests.fuzz import archives, corpus, damage, models, pictures
from tests.fuzz.archives import Trick
from tests.fuzz.corpus import Case
from tests.fuzz.damage import Damage
from tests.fuzz.models import Mutation

ENDINGS = ("png", "jpg", "bmp", "gif", "webp", "tif", "ppm")
Maker = Callable[[Random], Case]


def case(seed: int, number: int) -> Case:
    """The first ones are of each kind once, so that even a short run has met them all; the others are by lot."""
    rng = Random(f"{seed}/{number}")
    makers = EACH_KIND[number : number + 1] or rng.choices(list(SHARES), list(SHARES.values()))
    return makers[0](rng)


def _model(rng: Random, mutation: Mutation | None = None) -> Case:
    name, data = models.mutated(rng, mutation)
    return Case(f"model: {name}", data, corpus.good_pictures())


def _model_bytes(rng: Random, kind: Damage | None = None) -> Case:
    name, data = damage.damaged(rng, rng.choice((corpus.pictures_model(), corpus.pair()[0])), kind)
    return Case(f"model bytes: {name}", data, corpus.good_pictures())


def _real_model(rng: Random) -> Case:
    name, data = damage.damaged(rng, rng.choice(corpus.real_models()))
    return Case(f"real model: {name}", data, [("samples.zip", corpus.digits()[1])])


def _archive(rng: Random, trick: Trick | None = None) -> Case:
    trick = trick or rng.choice(archives.TRICKS)
    return Case(f"zip: {trick.__name__}", corpus.pictures_model(), [("a.zip", trick(rng))])


def _rare(rng: Random) -> Case:
    return _archive(rng, rng.choice(archives.RARE))


def _bytes(rng: Random, kind: Damage | None = None) -> Case:
    """A sound container, damaged without regard to what it is."""
    model, good = rng.choice(
        (
            (corpus.pictures_model(), corpus.good_zip()),
            corpus.digits(),
            corpus.pair(),
            (corpus.numbers_model(), corpus.numbers()),
        )
    )
    name, data = damage.damaged(rng, good, kind)
    return Case(f"images bytes: {name}", model, [("a.zip", data)])


def _picture(rng: Random, kind: Trick | None = None) -> Case:
    kind = kind or rng.choice(pictures.KINDS)
    odd = (f"odd.{rng.choice(ENDINGS)}", kind(rng))
    others = corpus.good_pictures()[:2] if rng.random() < 0.5 else ()
    options = {"allow_damaged_images": True} if others and rng.random() < 0.3 else {}
    return Case(f"picture: {kind.__name__}", corpus.pictures_model(), [odd, *others], options)


def _array(rng: Random, kind: Trick | None = None) -> Case:
    kind = kind or rng.choice(archives.ARRAYS)
    name = "a.zip" if kind is archives.packed_arrays else "a.npy"
    return Case(f"array: {kind.__name__}", corpus.numbers_model(), [(name, kind(rng))])


SHARES: dict[Maker, int] = {
    _model: 36,
    _model_bytes: 18,
    _real_model: 3,
    _archive: 15,
    _rare: 1,
    _bytes: 12,
    _picture: 8,
    _array: 8,
}
EACH_KIND: list[Maker] = [
    *(partial(_model, mutation=mutation) for mutation in dict.fromkeys(models.MUTATIONS)),
    *(partial(made, kind=kind) for made in (_model_bytes, _bytes) for kind in damage.KINDS),
    *(partial(_archive, trick=trick) for trick in dict.fromkeys((*archives.TRICKS, *archives.RARE))),
    *(partial(_picture, kind=kind) for kind in dict.fromkeys(pictures.KINDS)),
    *(partial(_array, kind=kind) for kind in dict.fromkeys(archives.ARRAYS)),
    _real_model,
]
