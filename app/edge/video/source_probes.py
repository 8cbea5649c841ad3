"""What live sources give, before a job reads them: each is opened once, by a process of its own that FFmpeg may crash.

Run as a program, it reads a source from its standard input and prints its facts.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from app.edge.agent.allocation import environment_for_workers
from app.inference.sources.facts import SourceFacts, probe
from app.kit.process.spawn import python_module
from app.kit.sandbox.kernel import die_with_parent
from app.kit.text.json_form import JsonForm

EXCLUSIVE = ("/", "udp:", "srt:")
"""Beginnings of sources that one program reads at a time, or which a sender calls: only a job opens them."""
LIMIT_S = 40.0
"""Seconds until a probe that says nothing is killed; a source itself is given up before."""
AGAIN_S = 300.0
"""Seconds until a source that could not be opened is probed again."""
LIVE = SourceFacts(is_live=True)
"""Facts of a live source of which no more is known."""
logger = logging.getLogger(__name__)
_FACTS = JsonForm(SourceFacts)


class SourceProbes:
    """Probes one source after the other, in a thread that is there while there are any. For any thread.

    Args:
        run: returns the facts of a source.
        clock: monotonic seconds.
    """

    def __init__(self, run: Callable[[str], SourceFacts], clock: Callable[[], float] = time.monotonic) -> None:
        self._run, self._clock = run, clock
        self._known = dict[str, tuple[SourceFacts, float]]()
        """By source: its facts, and when it was probed."""
        self._waiting = list[str]()
        self._lock = threading.Lock()

    def facts(self, source: str, *, is_read: bool = False) -> SourceFacts:
        """Returns what is known of a live source now; what is not known is found out.

        Args:
            source: the live source.
            is_read: a worker of this node reads it, which shows that it can be opened. It is left alone, since a camera
                may allow one connection, and a problem of an earlier probe is forgotten.
        """
        if source.startswith(EXCLUSIVE):
            return LIVE
        with self._lock:
            if is_read:
                self._waiting[1:] = [one for one in self._waiting[1:] if one != source]
                if source in self._known and self._known[source][0].problem:
                    del self._known[source]
                return self._known.get(source, (LIVE, 0.0))[0]
            facts, at = self._known.get(source, (LIVE, -AGAIN_S))
            is_due = not facts.width and self._clock() - at >= AGAIN_S
            if is_due and source not in self._waiting:
                self._waiting.append(source)
                if len(self._waiting) == 1:
                    threading.Thread(target=self._probe_all, name="source probes", daemon=True).start()
            return facts

    def _probe_all(self) -> None:
        while True:
            source = self._waiting[0]
            facts = self._run(source)
            with self._lock:
                self._known[source] = facts, self._clock()
                self._waiting.pop(0)
                if not self._waiting:
                    return


def probe_apart(source: str) -> SourceFacts:
    """Probes in a process of its own. The address may have a password, so it is no argument."""
    try:
        program = subprocess.run(
            python_module(__name__),
            env=environment_for_workers(os.environ),
            input=source,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
        return _FACTS.read(json.loads(program.stdout))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        logger.warning("A live source could not be probed: %s", type(error).__name__)
        return LIVE


if __name__ == "__main__":
    die_with_parent()
    print(json.dumps(_FACTS.write(probe(sys.stdin.read()))))
