"""Pages of another program that are served below a path of ours, such as a dashboard: what their scripts may reach.

They have our origin, so a fault in them must not become one of ours: they may send requests only below their path, send
no forms and open no windows, and so act on none of our pages. What they load below their path has the same limits.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request

from app.kit.web.public_address import find_reached_url


def headers_below(
    request: Request, base: str, scripts: str, *, allowed: Iterable[str] = (), frames: bool = False
) -> dict[str, str]:
    """The headers of a response of such a program.

    Args:
        base: The path below which all of it is, with a slash at its end.
        scripts: The folder below base that holds its scripts and styles, with a slash at its end; "": anywhere below.
        allowed: Further sources of scripts, such as hashes.
        frames: Whether it has frames and workers, with pages and scripts of its own.
    """
    own = f"{find_reached_url(request)}{base}"
    policy = {
        "default-src": "'none'",
        "script-src": " ".join((f"{own}{scripts}", *allowed)),
        "style-src": f"{own}{scripts} 'unsafe-inline'",
        "font-src": f"{own} data:",
        "img-src": f"{own} data: blob:",
        "connect-src": own,
        "frame-src": own if frames else "'none'",
        "worker-src": own if frames else "'none'",
        "form-action": "'none'",
        "base-uri": "'none'",
        "frame-ancestors": own if frames else "'none'",
        "sandbox": "allow-scripts allow-same-origin allow-downloads",
    }
    text = "; ".join(f"{name} {value}" for name, value in policy.items())
    return {"Content-Security-Policy": text, "Referrer-Policy": "no-referrer"}
