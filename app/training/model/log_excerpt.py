"""Reads the last output of a program that failed: its lines without colors, and the exception that ended it. Pure.

On Ray many processes write into one log: lines of others start with their name, as in "(TaskRunner pid=17) …", and
continue after the program has failed. The program's own output takes precedence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MOST_CHARS = 500_000
LINE_CHARS = 10_000

ESCAPE = re.compile(r"\x1b(?:\[[0-?]{0,99}[ -/]{0,9}[@-~]|\][^\x07\x1b\n]{0,300}\x07|[@-Z\\^_])?")
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
OTHERS = re.compile(r"\((?:raylet|autoscaler|[^()\n]{1,99}\bpid=\d{1,9}[^()\n]{0,99})\) ?")
RANK = re.compile(r"\[(?:rank|default)(\d{1,6})\]:")
"""How PyTorch starts the lines of a process in a group."""
EXCEPTION = re.compile(r"(?:[A-Za-z_]\w{0,99}\.){0,9}[A-Za-z_]\w{0,99}(?:\([A-Za-z_]\w{0,99}\))?(?=: |:?$)")
NAMES = ("Error", "Exception", "Interrupt", "Exit", "Errors", "MissingMandatoryValue", "StopIteration")


@dataclass(frozen=True)
class LogExcerpt:
    """The last output of a program."""

    lines: tuple[str, ...] = ()
    """Without colors and process names."""
    exception: str | None = None
    """The line of the last exception, of the program itself if it had one; if it ends in a colon, with the next line:
    the cause."""


def read(text: str) -> LogExcerpt:
    """Of a long text the end."""
    plain = CONTROLS.sub("", ESCAPE.sub("", text[-MOST_CHARS:].replace("\r", "\n")))
    own: int | None = None
    others: int | None = None
    is_ignored = False
    lines, names = [], []
    for at, written in enumerate(plain.split("\n")):
        name = OTHERS.match(written)
        line = written[name.end() if name else 0 :][:LINE_CHARS]
        lines.append(line)
        names.append(name[0] if name else "")
        if line.startswith("Exception ignored in"):
            is_ignored = True
        elif _is_exception(line):
            own, others = (own, others) if is_ignored else (own, at) if name else (at, others)
            is_ignored = False
    last = others if own is None else own
    return LogExcerpt(tuple(lines), None if last is None else _with_cause(last, lines, names))


def process_of(line: str) -> str:
    """Which of a job's processes wrote a line, as "WorkerDict pid=17, ip=10.0.0.2" or "rank 3"; "" for its program."""
    name = OTHERS.match(line)
    if name is not None:
        return name[0].strip()[1:-1]
    rank = RANK.match(line)
    return f"rank {rank[1]}" if rank else ""


def _with_cause(at: int, lines: Sequence[str], names: Sequence[str]) -> str:
    """Hydra prints "Error in call to target 'x':", and the error itself on the next line of the same process."""
    line = lines[at].rstrip()
    if not line.endswith(":"):
        return line
    below = zip(lines[at + 1 :], names[at + 1 :], strict=True)
    cause = next((text for text, name in below if name == names[at] and text.strip()), "")
    return f"{line} {cause.strip()}".rstrip()


def _is_exception(line: str) -> bool:
    """The last line of a traceback: not indented, and named like an exception. Quoted source lines are indented."""
    match = EXCEPTION.match(line)
    return match is not None and match[0].rstrip(")").endswith(NAMES)
