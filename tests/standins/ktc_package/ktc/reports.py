"""model_fx_report.json and .html in the form of real ones."""

import json
from pathlib import Path

VERSION = (Path(__file__).parents[1] / "version.txt").read_text().strip()
FPS = {"520": 54.0, "720": 683.0, "530": 342.0, "630": 219.0, "730": 812.0}


def write(folder, platform, bits, *, mode="", snr=None, extra=None):
    """bits: input, output, cpu, datapath, weight."""
    if mode == "no_report":
        return
    chip = "kdp" + platform
    report = {"docker_version": VERSION, "comments": ""}
    if mode != "broken_report":
        shown = dict.fromkeys(bits, "int8") if mode == "ignored_bits" else bits
        report.update({"%s/%s bitwidth" % (chip, key): value for key, value in shown.items()})
        fps = FPS[platform]
        report.update(
            {
                chip + "/ip_eval/fps": "%g" % fps,
                chip + "/ip_eval/ITC(ms)": "%.4f ms" % (1000 / fps),
                chip + "/ip_eval/C(GOPs)": "4.13823e+09",
                chip + "/ip_eval/RDMA bandwidth GB/s": "3.6 GB/s",
                chip + "/ip_eval/WDMA bandwidth GB/s": "3.6 GB/s",
                chip + "/ip_eval/GETW bandwidth GB/s": "3.6 GB/s",
                chip + "/ip_eval/RV(mb)": 90.9954,
                chip + "/ip_eval/WV(mb)": 68.868,
                chip + "/ip_eval/cpu_node": "Softmax: softmax_0//Reshape: reshape_3" if mode == "cpu_node" else "N/A",
            }
        )
        if snr is not None:
            report[chip + "/SNR(dB)"] = "%.2f" % snr
            report[chip + "/btm"] = "matched"
        report.update(extra or {})
    report["gen fx model report"] = "model_fx_report.html"
    report["gen fx model json"] = "model_fx_report.json"
    (folder / "model_fx_report.json").write_text(json.dumps(report, indent=2))
    (folder / "model_fx_report.html").write_text(html(chip, mode))


def html(chip, mode):
    kind = "CPU" if mode == "cpu_node" else "NPU"
    columns = ["node", "node origin", "type", "bw in", "bw out", "bw weight", "node backend", "MAC_cycle",
               "runtime(ms)", "in_fmt", "out_fmt", "SNR"]
    rows = [
        ["conv_0", "Conv_0", "NPU", "8", "8", "8", "npu_0", "1200", "0.8", "4W4C8B", "1W16C8B", "31.5"],
        ["relu_0", "Relu_0", "FUSED", "NaN", "NaN", "None", "↑", "↑", "↑", "↑", "↑", "NaN"],
        ["softmax_0", "Softmax_9", kind, "8", "8", "None", "npu_1", "NaN", "2.5", "1W16C8B", "RAW8", "18.0"],
    ]
    head = "".join("<th>%s</th>" % name for name in ["", *columns])
    body = "".join(
        "<tr><th>%d</th>%s</tr>" % (index, "".join("<td>%s</td>" % cell for cell in row))
        for index, row in enumerate(rows)
    )
    table = '<table border="1" class="dataframe"><thead><tr>%s</tr></thead><tbody>%s</tbody></table>' % (head, body)
    return "<html><body><table><tr><td>summary</td></tr></table><h2>%s</h2>%s</body></html>" % (chip, table)
