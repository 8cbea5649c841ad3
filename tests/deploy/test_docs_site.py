"""The documentation builds as a site: no dead link, no page that nothing leads to, no interface without its module."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from markdown.extensions.toc import slugify

from tests.harness.paths import REPOSITORY

DOCS = REPOSITORY / "docs"
CONFIGURATION = REPOSITORY / "ops" / "mkdocs.yml"


def pages_of(navigation: object) -> set[str]:
    if isinstance(navigation, str):
        return {navigation}
    if isinstance(navigation, dict):
        return pages_of(list(navigation.values()))
    assert isinstance(navigation, list)
    return set().union(*map(pages_of, navigation))


def test_the_navigation_has_every_page_and_the_index_every_decision() -> None:
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    decisions = {page for page in pages if page.startswith("decisions/0")}
    assert decisions
    assert pages_of(yaml.safe_load(CONFIGURATION.read_text())["nav"]) == pages - decisions
    index = (DOCS / "decisions" / "index.md").read_text()
    assert [page for page in decisions if f"({Path(page).name})" not in index] == []


def test_every_module_that_a_document_names_is_there() -> None:
    named = {
        (page.name, path)
        for page in [*DOCS.rglob("*.md"), REPOSITORY / "CONTRIBUTING.md", REPOSITORY / "README.md"]
        for path in re.findall(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`", page.read_text())
    }
    roots = [REPOSITORY, REPOSITORY / "app"]
    assert len(named) > 50
    assert {(page, path) for page, path in named if not any((root / path).exists() for root in roots)} == set()


def headings(page: Path) -> set[str]:
    """As the site names them in addresses; a second one of the same text has a number, which nothing links to."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {
        slugify(re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", title), "-")
        for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }


def test_every_link_leads_to_a_page_and_a_heading() -> None:
    links = {
        (page, link)
        for page in DOCS.rglob("*.md")
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
        if not link.startswith(("http:", "https:"))
    }
    assert len(links) > 100
    dead = []
    for page, link in links:
        name, _, heading = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.is_relative_to(DOCS) or not target.is_file() or (heading and heading not in headings(target)):
            dead.append(f"{page.relative_to(DOCS)}: {link}")
    assert not dead


def test_every_interface_that_is_described_is_there() -> None:
    named = [name for page in DOCS.rglob("*.md") for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)]
    assert len(named) > 5
    for name in named:
        importlib.import_module(name)


@pytest.mark.exhaustive
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-f",
        str(CONFIGURATION),
        "-d",
        str(tmp_path / "site"),
    ]
    built = subprocess.run(
        command,
        check=False,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    assert built.returncode == 0, built.stderr
    reference = (tmp_path / "site" / "reference" / "extensions" / "index.html").read_text()
    assert "app.conversion.toolchains.base.Toolchain" in reference
