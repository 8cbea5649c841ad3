"""Reads the vendor's model_fx_report.json and the per-node table of its HTML twin. Lenient: versions differ.

Keys look like `kdp530/ip_eval/fps`; the part before the last slash varies between versions, so they are matched by
their ending and numbers are cut out of their text ("69.5489 ms"). Unknown keys are kept. Source: vendor manual
v0.33.1 and one report file of v0.32.1.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Literal, TypedDict

from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import UnreadableJson, read_object

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
Figure = Literal[
    "fps", "itc_ms", "operations", "rdma_gb_s", "wdma_gb_s", "getw_gb_s", "ddr_read_mb", "ddr_write_mb", "snr_db"
]
ENDINGS: dict[str, Figure] = {
    "fps": "fps",
    "ITC(ms)": "itc_ms",
    "C(GOPs)": "operations",
    "RDMA bandwidth GB/s": "rdma_gb_s",
    "WDMA bandwidth GB/s": "wdma_gb_s",
    "GETW bandwidth GB/s": "getw_gb_s",
    "RV(mb)": "ddr_read_mb",
    "WV(mb)": "ddr_write_mb",
    "SNR(dB)": "snr_db",
}
BITS = {"input": "model_in", "output": "model_out", "cpu": "cpu_node", "datapath": "datapath", "weight": "weight"}
EMPTY = {"", "n/a", "nan", "none", "-", "--"}
SIZE_LIMIT = 64 << 20
NODE_LIMIT = 5000
SLOWEST = 10
SHARED = "shared"
BACKEND = "node backend"


class CpuNode(TypedDict):
    operator: str
    node: str


class VendorReport(TypedDict, total=False):
    """What the report says; keys that it lacks are left out."""

    complete: bool
    """Whether it goes on to the speed."""
    fps: float | None
    itc_ms: float | None
    operations: float | None
    rdma_gb_s: float | None
    wdma_gb_s: float | None
    getw_gb_s: float | None
    ddr_read_mb: float | None
    ddr_write_mb: float | None
    snr_db: float | None
    cpu_nodes: list[CpuNode]
    bits: dict[str, str]
    """The bit widths, by side."""
    toolchain_version: str
    btm: Any
    comments: Any
    other: JsonObject
    """Keys that are not known here."""
    nodes: JsonObject
    """See `digest`."""
    unsupported: list[CpuNode]
    """Operators that the IP evaluator calls so."""


def number(value: object) -> float | None:
    """Returns the first number in a value; None without one."""
    if isinstance(value, bool) or value is None:
        return None
    match = NUMBER.search(str(value))
    return float(match.group()) if match else None


def read(path: Path) -> VendorReport:
    """Returns the report; that of a file that is not a JSON object is not complete."""
    try:
        return parse(read_object(path.read_text("utf-8", "replace") if path.stat().st_size <= SIZE_LIMIT else ""))
    except UnreadableJson:
        return {"complete": False, "other": {}}


def parse(data: JsonObject) -> VendorReport:
    facts: VendorReport = {"cpu_nodes": [], "bits": {}, "other": {}}
    for key, value in data.items():
        _place(facts, key.rsplit("/", 1)[-1] if "GB/s" not in key else _name_bandwidth(key), key, value)
    # The vendor's "GOPs" are plain operations, such as 4.13823e+09 for 4.1 GOP; small numbers are taken literally.
    operations = facts.get("operations")
    if operations is not None and operations < 1e6:
        facts["operations"] = operations * 1e9
    facts["complete"] = any(re.search(r"(^|/)ip_eval/fps$", key) for key in data)
    return facts


def _name_bandwidth(key: str) -> str:
    """Returns the name of a bandwidth: `kdp530/ip_eval/RDMA bandwidth GB/s` has a slash in its unit."""
    return key.removesuffix("/s").rsplit("/", 1)[-1] + "/s"


def _place(facts: VendorReport, name: str, key: str, value: Any) -> None:
    if figure := ENDINGS.get(name):
        facts[figure] = number(value)
    elif name == "cpu_node":
        facts["cpu_nodes"] = cpu_nodes(value)
    elif name == "docker_version":
        facts["toolchain_version"] = str(value).strip()
    elif name == "btm":
        facts["btm"] = value
    elif name == "comments":
        facts["comments"] = value
    elif name.endswith(" bitwidth") and name.split(maxsplit=1)[0] in BITS:
        facts["bits"][BITS[name.split(maxsplit=1)[0]]] = str(value).strip()
    else:
        facts["other"][key] = value


def cpu_nodes(value: object) -> list[CpuNode]:
    """Converts `Softmax: node_a//Reshape: node_b` to [{operator, node}, ...], and "N/A" to []."""
    text = str(value or "").strip()
    if text.lower() in EMPTY:
        return []
    parts = [part.partition(":") for part in text.split("//") if part.strip()]
    return [{"operator": operator.strip(), "node": node.strip()} for operator, _, node in parts]


def bits_ignored(requested: dict[str, str], effective: dict[str, str]) -> list[str]:
    """Returns sentences for the bit widths that differ from the requested ones."""
    return [
        f"{side} was asked for as {requested[side]}, but the report says {effective[side]}"
        for side in sorted(requested.keys() & effective.keys())
        if effective[side].lower() not in EMPTY and _parse_width(requested[side]) != _parse_width(effective[side])
    ]


def _parse_width(text: str) -> str:
    """Converts `8`, `int8`, `INT8` and `8bit` to `8`; a mix keeps its name."""
    match = re.fullmatch(r"(?:int)?\s*(\d+)\s*-?(?:bits?|b)?", text.strip().lower())
    return match.group(1) if match else re.sub(r"[\s_-]+", "", text.lower())


# --- the per-node table ---------------------------------------------------------------------------
class _Tables(HTMLParser):
    """Collects the rows of every `table` with the class of a pandas data frame."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self._inside = False
        self._cell: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._inside = "dataframe" in (dict(attrs).get("class") or "").split()
            if self._inside:
                self.tables.append([])
        elif self._inside and tag == "tr":
            self.tables[-1].append([])
        elif self._inside and tag in ("td", "th"):
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._inside = False
        elif tag in ("td", "th") and self._cell is not None and self._inside and self.tables[-1]:
            self.tables[-1][-1].append("".join(self._cell).strip())
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)


def read_nodes(path: Path) -> list[JsonObject]:
    """Returns the per-node table: {node, origin, type, bits_in, bits_out, bits_weight, runtime_ms, snr_db, ...}."""
    if path.stat().st_size > SIZE_LIMIT:
        return []
    parser = _Tables()
    parser.feed(path.read_text("utf-8", "replace"))
    for table in parser.tables:
        if table and "node" in table[0] and "type" in table[0]:
            return [_read_node(row) for row in _fill_rows(table)]
    return []


def _fill_rows(table: list[list[str]]) -> list[dict[str, str]]:
    """Returns the rows by column name. "↑" repeats the value above (a node of the same backend node); NaN and None
    become "".

    Some reports repeat the values of a shared backend node at each of its nodes.
    """
    header, rows, above = table[0], [], dict[str, str]()
    backends = set[str]()
    for cells in table[1 : NODE_LIMIT + 1]:
        row = {}
        for name, cell in zip(header, cells, strict=False):
            value = above.get(name, "") if cell == "↑" else cell
            row[name] = "" if value.lower() in EMPTY else value
        backend = row.get(BACKEND, "")
        row[SHARED] = "yes" if "↑" in cells or backend in backends else ""
        backends |= {backend} - {""}
        above = row
        rows.append(row)
    return rows


def _read_node(row: dict[str, str]) -> JsonObject:
    texts = {"node": "node", "origin": "node origin", "type": "type", "backend": BACKEND}
    texts |= {"bits_in": "bw in", "bits_out": "bw out", "bits_weight": "bw weight"}
    texts |= {"in_format": "in_fmt", "out_format": "out_fmt"}
    numbers = {"mac_cycles": "MAC_cycle", "runtime_ms": "runtime(ms)", "snr_db": "SNR"}
    facts: JsonObject = {key: row[column] for key, column in texts.items() if row.get(column)}
    if row[SHARED]:
        numbers = {"snr_db": "SNR"}  # cycles and time are those of the backend node, which are counted once
    for key, column in numbers.items():
        value = number(row.get(column))
        if value is not None:
            facts[key] = value
    return facts


def digest(nodes: list[JsonObject]) -> JsonObject:
    """Returns a digest of the table: nodes per type, those on the CPU, the slowest, those with the lowest SNR."""
    types = [node.get("type", "?") for node in nodes]
    timed = [node for node in nodes if "runtime_ms" in node]
    noisy = [node for node in nodes if "snr_db" in node]
    return {
        "types": {kind: types.count(kind) for kind in sorted(set(types))},
        "cpu": [node for node in nodes if node.get("type") == "CPU"],
        "slowest": sorted(timed, key=lambda node: -float(node["runtime_ms"]))[:SLOWEST],
        "lowest_snr": sorted(noisy, key=lambda node: float(node["snr_db"]))[:SLOWEST],
    }
