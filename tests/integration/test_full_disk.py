"""The folder store where there is no more room."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from tests.harness.paths import REPOSITORY
from tests.harness.until import PATIENCE_S

FILL = """
    import resource, signal, sys
    from pathlib import Path
    from app.kit.objects import StoreFull
    from app.kit.objects.filesystem import FilesystemStore

    root = Path(sys.argv[1])
    store = FilesystemStore(root / "store")
    store.put("old", [b"kept"])
    (root / "big").write_bytes(bytes(3 << 20))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    for store_it in (
        lambda: store.put("new/a", (bytes(100_000) for _ in range(30))),
        lambda: store.put("old", [bytes(3 << 20)]),
        lambda: store.put_file("new/b", root / "big"),
    ):
        try:
            store_it()
        except StoreFull as error:
            assert (error.status, error.code) == (507, "STORE_FULL"), error
            assert "no room" in error.message and error.hint
        else:
            sys.exit("it fitted")
    assert [i.key for i in store.list("")] == ["old"]
    assert b"".join(store.read("old")) == b"kept"
    assert list((root / "store" / "drafts").iterdir()) == []
"""


def test_without_room_the_error_is_clear_and_nothing_is_left(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(FILL), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        cwd=REPOSITORY,
    )
    assert (done.returncode, done.stderr) == (0, "")
