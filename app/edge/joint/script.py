"""Where a user's script is: below a folder that the node's administrator has opened for scripts, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from app.edge.agent.driver import WorkRefused

REFUSED, NOT_FOUND = "ScriptRefused", "ScriptNotFound"


def script_of(folder: str, boot_file: str, roots: Sequence[Path]) -> Path:
    """The file itself, links and `..` resolved. An absolute folder may begin with that of a root, or is taken below it.

    Raises WorkRefused.
    """
    named = f"{folder}/{boot_file}"
    if not roots:
        raise WorkRefused(
            f"This node runs no users' scripts, and {named} is one.",
            reason=REFUSED,
            hint="Start its agent with --scripts and a folder, or leave scriptDir empty for the bundled worker.",
        )
    if "\0" in named:
        raise WorkRefused("The name of a script holds no NUL.", reason=REFUSED)
    candidates = [(root, path) for root in roots for path in _candidates(folder, boot_file, root)]
    inside = [path.resolve() for root, path in candidates if path.resolve().is_relative_to(root.resolve())]
    found = next((path for path in inside if path.is_file()), None)
    if found is not None:
        return found
    if len(inside) < len(candidates):
        raise WorkRefused(
            f"{named} lies outside of the folders for scripts of this node.",
            reason=REFUSED,
            hint=f"These are {', '.join(map(str, roots))}.",
        )
    raise WorkRefused(
        f"There is no {named} on this node.",
        reason=NOT_FOUND,
        hint=f"Put it below {' or '.join(map(str, roots))}.",
    )


def _candidates(folder: str, boot_file: str, root: Path) -> list[Path]:
    below = root / folder.lstrip("/") / boot_file
    return [below] if not folder.startswith("/") else [Path(folder) / boot_file, below]
