"""The wheel is the whole product: what lies beside `app` in a checkout is inside of it there."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.harness.paths import REPOSITORY

PACKAGES = {"modelmill_client": "ops/packages/modelmill-client", "modelmill_edge": "ops/packages/modelmill-edge"}
DATA = {
    "templates": "app/templates",
    "static": "app/static",
    "ops/samples/digits": "app/ops/samples/digits",
    "ops/samples/drawn": "app/ops/samples/drawn",
    "ops/samples/export": "app/ops/samples/export",
    "ops/samples/placement": "app/ops/samples/placement",
    **{f"{folder}/{package}": package for package, folder in PACKAGES.items()},
}
RENDERED = """
import app.main
from app.conversion.cli.sample import MODEL
from app.kit.web.static import static_url
from app.kit.web.templates import FOLDER
print(app.main.__file__, FOLDER / "base.html", MODEL, static_url("app.js"), sep="\\n")
assert (FOLDER / "base.html").is_file() and MODEL.is_file()
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", folder, REPOSITORY], check=True)
    return next(folder.glob("modelmill-*.whl"))


def test_it_has_each_file_of_the_product(wheel: Path) -> None:
    files = [
        path.relative_to(REPOSITORY).as_posix()
        for folder in ("app", "actors", *DATA)
        for path in (REPOSITORY / folder).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    ]
    assert files
    assert {_place(name) for name in files} - set(zipfile.ZipFile(wheel).namelist()) == set()


def test_it_has_no_file_of_the_tests_or_of_operations(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"app", "actors", *PACKAGES}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_alone_has_nothing_of_the_product(package: str, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    command = [*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, REPOSITORY / PACKAGES[package]]
    subprocess.run(command, check=True)
    (wheel,) = tmp_path.glob(f"{package}-*.whl")
    files = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in files if ".dist-info" not in name} == {package}
    assert f"{package}/py.typed" in files


def test_templates_static_files_and_the_sample_are_those_of_the_wheel(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    run = subprocess.run(
        [sys.executable, "-S", "-c", RENDERED],
        cwd="/",
        env={"PYTHONPATH": f"{tmp_path}{os.pathsep}{packages}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    *places, url = run.stdout.split()
    assert all(Path(place).is_relative_to(tmp_path) for place in places)
    assert url.startswith("/static/app.js?v=")


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)  # a package index is as slow as it likes
def test_installed_in_an_empty_environment_it_converts_the_sample(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    pip = [home / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--constraint", REPOSITORY / "ops" / "requirements.lock", wheel], cwd=tmp_path, check=True)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MODELMILL_", "PYTHON"))}
    up = [home / "bin" / "modelmill", "up", "--sample", "--once", "--port", "0", "--data-dir", tmp_path / "data"]
    run = subprocess.run(
        up, cwd=tmp_path, env={**plain, "MODELMILL_SFTP_PORT": "0"}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert (tmp_path / "data" / "sample" / "out.nef").is_file()


def _place(name: str) -> str:
    """Where a file of the checkout lies in the wheel."""
    for source, target in DATA.items():
        if name.startswith(f"{source}/"):
            return target + name.removeprefix(source)
    return name
