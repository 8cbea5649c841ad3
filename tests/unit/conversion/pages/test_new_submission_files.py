"""The files of a form as it is sent without a script."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.conversion.pages.new_submission import NO_PICTURES_BESIDE, store_files
from app.conversion.service.uploads import Uploads
from app.kit.objects import FilesystemOptions, open_store
from app.kit.sandbox.runner import Sandbox
from app.kit.web.forms import SentFile, SentForm
from app.settings import Settings


@pytest.fixture
def uploads(tmp_path: Path, sandbox: Sandbox) -> Uploads:
    settings = Settings(data_dir=tmp_path / "data", secret_key=SecretStr("s"))
    objects = open_store(FilesystemOptions(tmp_path / "objects", public_url="http://x", secret="s"))
    return Uploads(settings, objects, sandbox)


def files(folder: Path, *names: str) -> list[SentFile]:
    for name in names:
        (folder / name).write_bytes(b"picture")
    return [SentFile(name, folder / name) for name in names]


def values() -> dict[str, str]:
    return {"quant_key": "", "quant_name": "", "quantization.report_images": ""}


def test_pictures_to_report_on_go_into_a_folder_of_the_same_zip(uploads: Uploads, tmp_path: Path) -> None:
    form = values()
    sent = SentForm(files={"images": files(tmp_path, "a.png", "b.png"), "report": files(tmp_path, "a.png", "c.png")})
    assert store_files(uploads, "ann", sent, form) == {}
    assert form["quantization.report_images"] == "report"
    stored = io.BytesIO(b"".join(uploads.objects.read(form["quant_key"])))
    assert zipfile.ZipFile(stored).namelist() == ["a.png", "b.png", "report/a.png", "report/c.png"]


@pytest.mark.parametrize(("images", "report"), [((), ("a.png",)), (("a.zip",), ("a.png",)), (("a.png",), ("b.zip",))])
def test_they_are_refused_where_they_cannot_be_packed_with_the_others(
    uploads: Uploads, tmp_path: Path, images: tuple[str, ...], report: tuple[str, ...]
) -> None:
    form = values()
    sent = SentForm(files={"images": files(tmp_path, *images), "report": files(tmp_path, *report)})
    assert store_files(uploads, "ann", sent, form) == {"images": NO_PICTURES_BESIDE}
    assert form == values()
